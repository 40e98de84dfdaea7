#include "base/tree.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace stepcast;
using namespace stepcast::tree;

namespace {

std::string refused(const std::string& text) {
  try {
    parse_value(text, "f");
  } catch (const InputError& error) {
    return error.what();
  }
  return "read";
}

}  // namespace

TEST_CASE("the three syntaxes give the same tree, each value with its line") {
  const ParsedValue json =
      parse_value("{\n \"a\": {\n  \"b\": [1, 2.5, \"x\", true, null]\n }\n}", "f");
  const ParsedValue yaml = parse_value("# remark\na:\n  b: [1, 2.5, x, true, null]\n", "f");
  const ParsedValue toml = parse_value("[a]\nb = [1, 2.5, \"x\", true]\n", "f");
  CHECK(json.syntax == Syntax::json);
  CHECK(yaml.syntax == Syntax::yaml);
  CHECK(toml.syntax == Syntax::toml);
  for (const Value* root : {&json.root, &yaml.root, &toml.root}) {
    const Value* b = root->find("a")->find("b");
    REQUIRE(b != nullptr);
    CHECK(b->items[0].integer == 1);
    CHECK(b->items[1].number == 2.5);
    CHECK(b->items[2].text == "x");
    CHECK(b->items[3].boolean);
  }
  CHECK(json.root.find("a")->find("b")->line == 3);
  CHECK(yaml.root.find("a")->find("b")->line == 3);
  CHECK(toml.root.find("a")->find("b")->line == 2);
  CHECK(json.root.find("a")->find("b")->items[4].is_null());
}

TEST_CASE("plain YAML words mean what PyYAML makes of them, and quoted ones stay text") {
  const Value root = parse_yaml("a: no\nb: 'no'\nc: On\nd: 5e8\ne: ~\nf: 1_000\ng: 0x10\n", "f");
  CHECK(root.find("a")->kind == Value::Kind::boolean);
  CHECK_FALSE(root.find("a")->boolean);
  CHECK(root.find("b")->kind == Value::Kind::text);
  CHECK(root.find("c")->boolean);
  CHECK(root.find("d")->number == 5e8);
  CHECK(root.find("e")->is_null());
  CHECK(root.find("f")->integer == 1000);
  CHECK(root.find("g")->kind == Value::Kind::text);
}

TEST_CASE(
    "YAML in braces with comments and a comma before the brace is YAML, as GPT-NeoX writes it") {
  const ParsedValue parsed = parse_value("{\n  # sizes\n  \"num-layers\": 12,\n}\n", "f");
  CHECK(parsed.syntax == Syntax::yaml);
  CHECK(parsed.root.find("num-layers")->integer == 12);
  CHECK(parsed.root.find("num-layers")->line == 3);
}

TEST_CASE("merges and aliases are followed, and what a table says itself wins") {
  const Value root = parse_yaml("base: &b {x: 1, y: 2}\nuse:\n  <<: *b\n  y: 3\nsame: *b\n", "f");
  CHECK(root.find("use")->find("x")->integer == 1);
  CHECK(root.find("use")->find("y")->integer == 3);
  CHECK(root.find("same")->find("y")->integer == 2);
}

TEST_CASE("references of OmegaConf are put in where they name a value") {
  Value root = parse_yaml("v: {n: 2048}\na: ${v.n}\nb: ${v.none}\nc: ${c}\nd: ${v}\n", "f");
  resolve_references(root);
  CHECK(root.find("a")->integer == 2048);
  CHECK(root.find("b")->text == "${v.none}");
  CHECK(root.find("c")->text == "${c}");
  CHECK(root.find("d")->text == "${v}");
}

TEST_CASE("a key that stands twice is refused in each syntax, with its line") {
  CHECK(refused("{\"a\": 1,\n \"a\": 2}").starts_with("f:2: a: stands twice"));
  CHECK(refused("a: 1\nb: 2\na: 3\n").starts_with("f:3: a: stands twice"));
  CHECK(refused("a = 1\na = 2\n").starts_with("f:2:"));
}

TEST_CASE("texts that would grow or go deep without end are refused") {
  std::string deep(100, '[');
  CHECK(refused("a: " + deep + std::string(100, ']')).find("64 levels") != std::string::npos);
  CHECK(refused("{\"a\": " + deep + std::string(100, ']') + "}").find("64 levels") !=
        std::string::npos);
  // Ten levels of ten aliases each: 10^10 values.
  std::string bomb = "a0: &a0 [1,1,1,1,1,1,1,1,1,1]\n";
  for (int i = 1; i < 10; ++i) {
    const std::string last = "*a" + std::to_string(i - 1);
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + last;
    for (int k = 1; k < 10; ++k) bomb += "," + last;
    bomb += "]\n";
  }
  CHECK(refused(bomb).find("200000 values") != std::string::npos);
  CHECK(refused(std::string(5 << 20, ' ')).find("4 MiB") != std::string::npos);
  CHECK(refused("a: &x [*x]\n") != "read");
}

TEST_CASE("what is no text, nothing or a template is refused by name") {
  CHECK(refused("a: 1\nb: \xE9\n").starts_with("f:2: is not valid UTF-8"));
  CHECK(refused("a: \xC3\xA9\n") == "read");
  CHECK(refused("").find("is empty") != std::string::npos);
  CHECK(refused("# only a remark\n").find("is empty") != std::string::npos);
  CHECK(refused(std::string("a: \0b", 5)).find("not text") != std::string::npos);
  CHECK(refused("{\n \"train_batch_size\": CONFIG_BATCH_SIZE\n}")
            .starts_with("f:2: CONFIG_BATCH_SIZE is a placeholder"));
  CHECK(refused("{\n \"stage\": ${zero_stage}\n}").find("f:2: ${zero_stage}") != std::string::npos);
  CHECK(refused("{\"a\": {\"b\": 1}").find("it ends too early") != std::string::npos);
  CHECK(refused("\xEF\xBB\xBF{\"a\": 1}") == "read");
  CHECK(refused("{\"a\": 1,}").find("not valid JSON") != std::string::npos);
  CHECK(refused("a: 1\n---\nb: 2\n").find("more than one YAML document") != std::string::npos);
}
