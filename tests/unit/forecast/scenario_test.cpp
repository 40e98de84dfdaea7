#include "sim/forecast/scenario.hpp"

#include <doctest/doctest.h>

#include <set>

using namespace stepcast;

namespace {

std::string message_of(const std::string& text) {
  try {
    parse_scenario(text, "s.toml");
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a scenario says what the file says and nothing else") {
  const Scenario s = parse_scenario(
      "model = \"llama-3-8b\"\nnodes = 16\nstrategy = \"fsdp2\"\nreshard_after_forward = false\n"
      "bucket_cap_mb = 12.5\n",
      "s.toml");
  CHECK(s.model == "llama-3-8b");
  CHECK(s.nodes == 16);
  CHECK(s.strategy == "fsdp2");
  CHECK(s.reshard_after_forward == YesNoOrCount{false, 0});
  CHECK(s.bucket_cap_mb == 12.5);
  int said = 0;
  visit_scenario(s, [&](const KeyInfo&, const auto& field) { said += field.has_value(); });
  CHECK(said == 5);
  CHECK(s.where("nodes").line == 2);
  CHECK(s.where("gpus").file == "--gpus");  // not said: where one could say it
}

TEST_CASE("wrong keys and values are refused with line, key and what is accepted") {
  struct Row {
    const char* text;
    const char* parts[3];
  };
  const Row rows[] = {
      {"model = \"x\"\nmicro_bacth = 2\n", {"s.toml:2", "micro_bacth", "micro_batch"}},
      {"nodes = -1\n", {"s.toml:1", "nodes", "-1"}},
      {"\n\nnodes = 1.5\n", {"s.toml:3", "nodes", ""}},
      {"strategy = \"fsdp3\"\n", {"s.toml:1", "strategy", "did you mean 'fsdp"}},
      {"checkpointing = \"all\"\n", {"checkpointing", "none, selective, full", "'all'"}},
      {"accumulation = 0\n", {"s.toml:1", "accumulation", "0"}},
      {"engine = \"packet\"\n", {"engine", "fluid, formula", ""}},
      {"model = 3\n", {"s.toml:1", "model", ""}},
      {"reshard_after_forward = \"yes\"\n", {"s.toml:1", "reshard_after_forward", ""}},
      {"model = \"llama\nnodes = 2\n", {"s.toml:1", "", ""}},  // a string that never ends
  };
  for (const Row& row : rows) {
    const std::string message = message_of(row.text);
    CAPTURE(row.text);
    CAPTURE(message);
    CHECK_FALSE(message.empty());
    CHECK(message.find('\n') == std::string::npos);
    for (const char* part : row.parts) CHECK(message.find(part) != std::string::npos);
  }
}

TEST_CASE("flags win over the file, and one way to say a size drops the other way") {
  const Scenario file = parse_scenario("nodes = 16\nmodel = \"gpt2\"\nseq_len = 1024\n", "s.toml");
  Scenario flags;
  flags.gpus = 12;
  flags.seq_len = 512;
  flags.said["seq_len"] = {.file = "--seq-len", .line = 0, .key = ""};
  const Scenario both = merged(file, flags);
  CHECK(both.model == "gpt2");
  CHECK(both.seq_len == 512);
  CHECK(both.gpus == 12);
  CHECK_FALSE(both.nodes.has_value());
  CHECK(both.where("seq_len").file == "--seq-len");
  CHECK(both.where("model").file == "s.toml");
}

TEST_CASE("ranges hold for flags too") {
  Scenario s;
  s.micro_batch = -3;
  CHECK_THROWS_WITH_AS(check_ranges(s), doctest::Contains("--micro-batch"), InputError);
  s.micro_batch = 1;
  s.wrap = "layer";
  CHECK_THROWS_WITH_AS(check_ranges(s), doctest::Contains("block, torchtitan"), InputError);
}

TEST_CASE("lists are arrays in a file, an empty one and a value out of range are refused") {
  const Scenario s = parse_scenario(
      "unused_parameters = [\"h.1.*\", \"head.weight\"]\nbucket_cap_mb_list = [1, 12.5]\n", "x");
  CHECK(s.unused_parameters == std::vector<std::string>{"h.1.*", "head.weight"});
  CHECK(s.bucket_cap_mb_list == std::vector<double>{1, 12.5});
  const Scenario empty = parse_scenario("unused_parameters = []", "x");
  CHECK_THROWS_WITH_AS(check_ranges(empty), doctest::Contains("unused_parameters: an empty list"),
                       InputError);
  const Scenario negative = parse_scenario("unused_on_ranks = [-1]", "x");
  CHECK_THROWS_WITH_AS(check_ranges(negative), doctest::Contains("unused_on_ranks: -1 is not"),
                       InputError);
}

TEST_CASE("every key is listed once, with help and a group") {
  const Scenario s;
  std::set<std::string> names;
  visit_scenario(s, [&](const KeyInfo& key, const auto&) {
    CHECK(names.insert(key.name).second);
    CHECK(std::string(key.help).size() > 5);
    CHECK(std::string(key.group).size() > 3);
  });
  CHECK(names.size() > 60);
  CHECK(flag_of("gradient_as_bucket_view") == "--gradient-as-bucket-view");
}
