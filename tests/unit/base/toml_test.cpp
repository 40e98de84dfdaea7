#include "base/toml.hpp"

#include <doctest/doctest.h>

#include <string>

using stepcast::InputError;
using stepcast::TomlTable;

namespace {

constexpr const char* machine = R"(# a comment, so that lines are not keys
name = "box"
count = 8
speed = 1.5

[fabric]
rails = 4
spine = true
order = [1, 2.5]
tags = ["a", "b"]
rows = [["gpu0", 1], ["gpu1", 2.5]]

[[gpu]]
name = "one"
[[gpu]]
name = "two"
)";

TomlTable parse(const std::string& text) { return TomlTable::from_text(text, "m.toml"); }

// The message of the InputError that `use` ends in.
template <typename Use>
std::string error_of(const std::string& text, Use&& use) {
  TomlTable table = parse(text);
  try {
    use(table);
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("values are read by name and type, and finish is content when all were asked for") {
  TomlTable t = parse(machine);
  CHECK(t.string("name") == "box");
  CHECK(t.integer("count", {}) == 8);
  CHECK(t.number("speed", {}) == 1.5);
  auto fabric = t.table("fabric");
  REQUIRE(fabric.has_value());
  CHECK(fabric->integer("rails", {1, 8}) == 4);
  CHECK(fabric->boolean_or("spine", false));
  CHECK(fabric->numbers("order") == std::vector<double>{1, 2.5});
  CHECK(fabric->strings("tags") == std::vector<std::string>{"a", "b"});
  CHECK(fabric->string_rows("rows") ==
        std::vector<std::vector<std::string>>{{"gpu0", "1"}, {"gpu1", "2.5"}});
  CHECK_NOTHROW(fabric->finish());
  auto gpus = t.tables("gpu");
  REQUIRE(gpus.size() == 2);
  CHECK(gpus[0].string("name") == "one");
  CHECK(gpus[1].string("name") == "two");
  CHECK_NOTHROW(gpus[1].finish());
  CHECK_NOTHROW(t.finish());
}

TEST_CASE("absent optional values take their fallback, and an integer is a number") {
  TomlTable t = parse("whole = 3\n");
  CHECK(t.number("whole", {}) == 3.0);
  CHECK(t.string_or("a", "x") == "x");
  CHECK(t.number_or("b", 2.5, {}) == 2.5);
  CHECK(t.integer_or("c", 7, {}) == 7);
  CHECK(t.boolean_or("d", true));
  CHECK_FALSE(t.optional_string("e").has_value());
  CHECK_FALSE(t.optional_number("f", {}).has_value());
  CHECK_FALSE(t.table("g").has_value());
  CHECK(t.tables("h").empty());
  CHECK(t.strings("i").empty());
}

TEST_CASE("a key that nobody asked for is refused with its line and the nearest known key") {
  CHECK(error_of("name = \"a\"\nnic_gbsp = 50\n",
                 [](TomlTable& t) {
                   t.string("name");
                   t.number_or("nic_gbps", 1, {});
                   t.finish();
                 }) ==
        "m.toml:2: nic_gbsp: is not a known key (did you mean 'nic_gbps'?); accepted: name, "
        "nic_gbps");
}

TEST_CASE("a misspelt key inside a table is named by its dotted path") {
  CHECK(error_of("[[gpu]]\nname = \"a\"\n\n[[gpu]]\nnmae = \"b\"\n", [](TomlTable& t) {
          for (TomlTable& gpu : t.tables("gpu")) {
            gpu.string_or("name", "");
            gpu.finish();
          }
        }) == "m.toml:5: gpu[1].nmae: is not a known key (did you mean 'name'?); accepted: name");
}

TEST_CASE("a missing key is an error at the line of its table") {
  CHECK(error_of("a = 1\n\n[fabric]\nrails = 4\n", [](TomlTable& t) {
          t.table("fabric")->string("kind");
        }) == "m.toml:3: fabric.kind: is missing; accepted: a string");
}

TEST_CASE("a value of another type is refused with what it is and what it should be") {
  const auto integer = [](TomlTable& t) { t.integer("x", {}); };
  CHECK(error_of("x = \"8\"", integer) == "m.toml:1: x: is a string; accepted: an integer");
  CHECK(error_of("x = [8]", integer) == "m.toml:1: x: is an array; accepted: an integer");
  CHECK(error_of("x = true", [](TomlTable& t) { t.string("x"); }) ==
        "m.toml:1: x: is true or false; accepted: a string");
  CHECK(error_of("x = 1979-05-27", [](TomlTable& t) { t.number("x", {}); }) ==
        "m.toml:1: x: is a date or time; accepted: a number");
  CHECK(error_of("x = 1", [](TomlTable& t) { t.boolean_or("x", true); }) ==
        "m.toml:1: x: is an integer; accepted: true or false");
  CHECK(error_of("x = 1", [](TomlTable& t) { t.table("x"); }) ==
        "m.toml:1: x: is an integer; accepted: a table");
  CHECK(error_of("x = [1]", [](TomlTable& t) { t.tables("x"); }) ==
        "m.toml:1: x: is an integer; accepted: an array of tables");
  CHECK(error_of("x = [\"a\",\n 1]", [](TomlTable& t) { t.strings("x"); }) ==
        "m.toml:1: x: is an integer; accepted: an array of strings");
  CHECK(error_of("x = [1, \"a\"]", [](TomlTable& t) { t.numbers("x"); }) ==
        "m.toml:1: x: is a string; accepted: an array of numbers");
  CHECK(error_of("x = [[true]]", [](TomlTable& t) { t.string_rows("x"); }) ==
        "m.toml:1: x: is true or false; accepted: an array of arrays of strings and numbers");
}

TEST_CASE("an integer may be written as a float: 5e8, 8.0, to 2^53, a fraction is none") {
  CHECK(parse("x = 5e8").integer("x", {1, 1e15}) == 500'000'000);
  CHECK(parse("x = 8.0").integer_or("x", 1, {}) == 8);
  CHECK(parse("x = -2e3").optional_integer("x", {}) == -2000);
  CHECK(parse("x = 9007199254740992.0").integer("x", {}) == 9'007'199'254'740'992);
  CHECK(parse("x = 1e9").is_integer("x"));
  CHECK_FALSE(parse("x = 1.5").is_integer("x"));
  const auto integer = [](TomlTable& t) { t.integer("x", {1, 1e18}); };
  CHECK(error_of("x = 2.5", integer) ==
        "m.toml:1: x: 2.5 is not accepted; accepted: an integer, also as 5e8, up to 2^53");
  // 2^53 + 2, the next double.
  for (const char* text : {"x = 9007199254740994.0", "x = 1e300", "x = inf", "x = nan"}) {
    CAPTURE(text);
    CHECK(error_of(text, integer).ends_with("accepted: an integer, also as 5e8, up to 2^53"));
  }
  // Bounds hold for it as for any other.
  CHECK(error_of("x = 5e8", [](TomlTable& t) { t.integer("x", {.max = 8}); }) ==
        "m.toml:1: x: 500000000 is out of range; accepted: at most 8");
}

TEST_CASE("a number outside its bounds is refused with the bounds, one on them is taken") {
  const auto between = [](TomlTable& t) { t.number("x", {0, 1}); };
  CHECK(error_of("x = 1.5", between) == "m.toml:1: x: 1.5 is out of range; accepted: 0 to 1");
  CHECK(error_of("x = 1.0", between) == "no error");
  CHECK(error_of("x = 0", between) == "no error");
  CHECK(error_of("x = -3", [](TomlTable& t) { t.integer("x", {.min = 1}); }) ==
        "m.toml:1: x: -3 is out of range; accepted: 1 or more");
  CHECK(error_of("x = 9", [](TomlTable& t) { t.integer_or("x", 1, {.max = 8}); }) ==
        "m.toml:1: x: 9 is out of range; accepted: at most 8");
}

TEST_CASE("an integer that no double holds is the nearest number, alone and in a list") {
  // 2^53 + 1 lies between two doubles and goes to the even one.
  double read = 0;
  std::vector<double> list;
  const auto take = [&](TomlTable& t) {
    read = t.number("x", {});
    list = t.numbers("y");
  };
  REQUIRE(error_of("x = 9007199254740993\ny = [9223372036854775807]", take) == "no error");
  CHECK(read == 9007199254740992.0);
  CHECK(list == std::vector<double>{9223372036854775808.0});
}

TEST_CASE("infinity and not-a-number are no numbers") {
  for (const char* text : {"x = inf", "x = -inf", "x = nan"}) {
    CAPTURE(text);
    const std::string message = error_of(text, [](TomlTable& t) { t.number("x", {}); });
    CHECK(message.find("is out of range; accepted: any finite number") != std::string::npos);
  }
  const std::string in_array = error_of("x = [1.0, nan]", [](TomlTable& t) { t.numbers("x"); });
  CHECK(in_array == "m.toml:1: x: nan is out of range; accepted: finite numbers");
}

TEST_CASE("a text that is not TOML is an error at its line") {
  const auto line_of = [](const std::string& text) {
    try {
      parse(text);
    } catch (const InputError& error) {
      return std::string(error.what()).substr(0, 9);
    }
    return std::string("no error");
  };
  CHECK(line_of("a = 1\nb = \n") == "m.toml:2:");
  CHECK(line_of("a = 1\na = 2\n") == "m.toml:2:");  // a key twice
  CHECK(line_of("a = 1\n\n[tab") == "m.toml:3:");   // cut off
  CHECK(line_of("a = \"x") == "m.toml:1:");
  CHECK(line_of("a = \"\xff\"") == "m.toml:1:");  // not UTF-8
  CHECK(line_of("a = 99999999999999999999") == "m.toml:1:");
  CHECK(line_of("a = " + std::string(100000, '[')) == "m.toml:1:");  // no stack overflow
}

TEST_CASE("an empty text is an empty table") {
  TomlTable t = parse("");
  CHECK(t.keys().empty());
  CHECK_FALSE(t.has("a"));
  CHECK_NOTHROW(t.finish());
}

TEST_CASE("a table keeps the whole tree alive") {
  std::optional<TomlTable> inner;
  {
    TomlTable t = parse("[a.b]\nc = \"deep\"\n");
    inner = t.table("a")->table("b");
  }
  CHECK(inner->string("c") == "deep");
  CHECK(inner->where("c").key == "a.b.c");
}

TEST_CASE("a key of very many parts is refused instead of exhausting the stack") {
  std::string key = "a";
  for (int i = 0; i < 40000; ++i) key += ".a";
  for (const std::string& text : {key + " = 1", "[" + key + "]", "x = {" + key + " = 1}"}) {
    CHECK_THROWS_WITH_AS(TomlTable::from_text("b = 1\n" + text, "deep.toml"),
                         "deep.toml:2: a key of more than 64 parts; accepted: fewer", InputError);
  }
  // Behind strings of every kind, wherever they end.
  const std::string deep = "a key of more than 64 parts";
  const auto refusal = [](const std::string& text) -> std::string {
    try {
      TomlTable::from_text(text, "deep.toml");
    } catch (const InputError& error) {
      return error.what();
    }
    return "accepted";
  };
  for (const std::string string : {R"("b\"c")", R"('b\')", R"("""b""""")", R"("""b\"""c""")",
                                   R"('''b\''')", "\"\"\"\n' \"\"\"", "'''\n\" '''"}) {
    CAPTURE(string);
    CHECK(refusal("x = [" + string + ", {" + key + " = 1}]").find(deep) != std::string::npos);
  }
  CHECK(refusal("\"b\\\"c\"." + key + " = 1").find(deep) != std::string::npos);
  // Dots that are no key's.
  const std::string dots(200, '.');
  TomlTable t = TomlTable::from_text("# " + dots + "\ns = \"" + dots + "\"\n", "dots.toml");
  CHECK(t.string("s") == dots);
}
