#include "models/json_reader.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace stepcast;

TEST_CASE("the line of a key is that of its object, whatever strings and arrays say") {
  const std::string text = R"({
  "note": "hidden_size: \"hidden_size\": 3 }",
  "list": [{"hidden_size": 1}, [
     {"hidden_size": 2}]],
  "attn_config": {
    "hidden_size": 7,
    "alibi"
      : true
  },
  "hidden_size": 5
})";
  CHECK(line_of_json_key(text, "note") == 2);
  CHECK(line_of_json_key(text, "hidden_size") == 10);
  CHECK(line_of_json_key(text, "attn_config.hidden_size") == 6);
  CHECK(line_of_json_key(text, "attn_config.alibi") == 7);
  CHECK(line_of_json_key(text, "alibi") == 0);
  CHECK(line_of_json_key(text, "missing") == 0);
}

TEST_CASE("of a repeated key the last line counts, as its last value does") {
  const std::string text = "{\"a\": 1,\n\"a\": 2}";
  CHECK(line_of_json_key(text, "a") == 2);
  CHECK(JsonReader::from_text(text, "f").integer("a") == 2);
}

TEST_CASE("values are read by type, and null is absent") {
  const JsonReader json = JsonReader::from_text(
      R"({"i": 3, "f": 0.5, "b": true, "s": "x", "n": null, "o": {"k": 4}})", "f.json");
  CHECK(json.integer("i") == 3);
  CHECK(json.optional_number("f") == 0.5);
  CHECK(json.boolean_or("b", false));
  CHECK(json.boolean_or("other", true));
  CHECK(json.string("s", "") == "x");
  CHECK_FALSE(json.has("n"));
  CHECK_FALSE(json.optional_integer("n").has_value());
  CHECK(json.object("o")->integer("k") == 4);
  CHECK_THROWS_WITH_AS(json.integer("f"), "f.json:1: f: is 0.5; accepted: an integer", InputError);
  CHECK_THROWS_WITH_AS(json.integer("n"), "f.json:1: n: is missing; accepted: an integer",
                       InputError);
  CHECK_THROWS_WITH_AS(json.boolean_or("s", true),
                       "f.json:1: s: is the string 'x'; accepted: true or false", InputError);
  CHECK_THROWS_WITH_AS(json.object("o")->optional_string("k"),
                       "f.json:1: o.k: is 4; accepted: a string", InputError);
  CHECK_THROWS_WITH_AS(json.object("i"), "f.json:1: i: is 3; accepted: an object", InputError);
}

TEST_CASE("Infinity and NaN, as Python writes them, are read over and are no numbers") {
  const JsonReader json = JsonReader::from_text(
      "{\"a\": [0.0, Infinity, -Infinity],\n\"b\": NaN, \"c\": \"NaN \\\" Infinity\", \"d\": 1}",
      "f");
  CHECK(json.integer("d") == 1);
  CHECK(json.string("c", "") == "NaN \" Infinity");
  CHECK_THROWS_WITH_AS(json.integer("b"), "f:2: b: is the string ''; accepted: an integer",
                       InputError);
}

TEST_CASE("text that nests without end is refused where it goes too deep") {
  const std::string deep = "{\"a\":\n" + std::string(127, '[') + std::string(127, ']') + "}";
  CHECK(JsonReader::from_text(deep, "f").has("a"));
  CHECK_THROWS_WITH_AS(JsonReader::from_text("{\"a\":\n" + std::string(1000000, '['), "f"),
                       "f:2: nests deeper than 128 brackets; accepted: a Hugging Face config.json",
                       InputError);
  CHECK_THROWS_AS(JsonReader::from_text("{\"a\": \"" + std::string(1000, '[') + "\", }", "f"),
                  InputError);  // brackets in a string are none; the comma is wrong
}
