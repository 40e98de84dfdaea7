// Keys by name: every one of them is set, read, copied and written as a file in the same way.
#include "sim/forecast/scenario_keys.hpp"

#include <doctest/doctest.h>

#include "base/error.hpp"

using namespace stepcast;

namespace {

// A text that the key takes.
std::string example(const ScenarioKey& key) {
  if (!key.info().accepted.empty()) return key.info().accepted.back();
  switch (key.type()) {
    case KeyType::word: return "a \"word\" with \\ and \t";
    case KeyType::number: return key.info().max > 0 && key.info().max < 21.5 ? "0.5" : "21.5";
    case KeyType::whole: return key.info().min > 37 ? "1234567" : "37";
    case KeyType::yes_no: return "false";
    case KeyType::words: return "one,two";
    case KeyType::numbers: return "1.5,3";
    case KeyType::yes_no_or_count: return "8";
  }
  return "";
}

}  // namespace

TEST_CASE("every key is read as it was set, copied, and written into a file that reads the same") {
  CHECK(scenario_keys().size() > 80);
  for (const ScenarioKey& key : scenario_keys()) {
    CAPTURE(key.name());
    const std::string text = example(key);
    Scenario s;
    CHECK_FALSE(key.is_set(s));
    CHECK(key.text(s).empty());
    key.set(s, text, {.file = "here", .line = 7, .key = ""});
    CHECK(key.is_set(s));
    CHECK(key.text(s) == text);
    CHECK(s.where(key.name()).line == 7);
    Scenario copy;
    key.copy(s, copy);
    CHECK(to_toml(copy) == to_toml(s));
    CHECK(copy.where(key.name()).file == "here");
    CHECK(key.text(parse_scenario(to_toml(s), "s.toml")) == text);
    key.reset(copy);
    CHECK(to_toml(copy).empty());
    CHECK(copy.where(key.name()).file == flag_of(key.name()));
  }
}

TEST_CASE("a number is written in the shortest way that means it") {
  Scenario s;
  scenario_key("bucket_cap_mb").set(s, "25.0", {});
  CHECK(scenario_key("bucket_cap_mb").text(s) == "25");
  CHECK(*scenario_key("bucket_cap_mb").number(s) == 25);
  scenario_key("bucket_cap_mb").set(s, "0.1", {});
  CHECK(scenario_key("bucket_cap_mb").text(s) == "0.1");
  scenario_key("reduce_bucket_size").set(s, "5e8", {});
  CHECK(scenario_key("reduce_bucket_size").text(s) == "500000000");
  scenario_key("reshard_after_forward").set(s, "false", {});
  CHECK(scenario_key("reshard_after_forward").text(s) == "false");
  CHECK_FALSE(scenario_key("strategy").number(s));
}

TEST_CASE("a key that is none, and a value that is none, are refused by name") {
  const auto message = [](auto&& action) -> std::string {
    try {
      action();
    } catch (const InputError& error) {
      return error.what();
    }
    return "nothing";
  };
  CHECK(message([] { scenario_key("node", {.file = "--vary", .line = 0, .key = ""}); }) ==
        "--vary: 'node' is no key of a scenario (did you mean 'nodes'?); accepted: the flags of "
        "`stepcast simulate --help`, with _ for -");
  Scenario s;
  CHECK(message([&] {
          scenario_key("nodes").set(s, "two", {.file = "--nodes", .line = 0, .key = ""});
        }) == "--nodes: 'two' is not accepted; accepted: a whole number, also as 5e8, up to 2^53");
  scenario_key("nodes").set(s, "0", {.file = "--nodes", .line = 0, .key = ""});
  CHECK(message([&] { scenario_key("nodes").check(s); }) ==
        "--nodes: 0 is not accepted; accepted: 1 to 1000000");
  scenario_key("strategy").set(s, "fspd2", {.file = "--strategy", .line = 0, .key = ""});
  CHECK(message([&] { scenario_key("strategy").check(s); }).find("did you mean 'fsdp2'") !=
        std::string::npos);
}
