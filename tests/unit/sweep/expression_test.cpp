// Conditions: what they are worth, what is unknown, what is no condition.
#include "sim/sweep/expression.hpp"

#include <doctest/doctest.h>

#include <map>

#include "tests/unit/sweep/message.hpp"

using namespace stepcast;
using test::message;

namespace {

const std::vector<std::string> names{"a", "b", "gpus", "strategy", "none"};

Cell worth(const std::string& text) {
  const std::map<std::string, Cell> values{
      {"a", 3.0}, {"b", 4.0}, {"gpus", 64.0}, {"strategy", std::string("ddp")}};
  return Expression::parse(text, "--where", names).value([&](const std::string& name) {
    const auto found = values.find(name);
    return found == values.end() ? Cell() : found->second;
  });
}
std::string refusal(const std::string& text) {
  return message([&] { worth(text); });
}

}  // namespace

TEST_CASE("arithmetic binds as everywhere") {
  CHECK(worth("1 + 2*3") == Cell(7.0));
  CHECK(worth("(1 + 2)*3") == Cell(9.0));
  CHECK(worth("10 - 2 - 3") == Cell(5.0));
  CHECK(worth("2*a - -b") == Cell(10.0));
  CHECK(worth("7 % 4 / 2") == Cell(1.5));
  CHECK(worth("min(a, b) + max(a, b)*10") == Cell(43.0));
  CHECK(worth("floor(log2(gpus) + 0.5)") == Cell(6.0));
  CHECK(worth("abs(a - b)") == Cell(1.0));
  CHECK(worth("1e3") == Cell(1000.0));
}

TEST_CASE("comparisons and their joints are 1 or 0") {
  CHECK(worth("a < b") == Cell(1.0));
  CHECK(worth("a*b >= 13") == Cell(0.0));
  CHECK(worth("a = 3 and b == 4") == Cell(1.0));
  CHECK(worth("a > b or not (b > 4)") == Cell(1.0));
  CHECK(worth("a > b || b > 4 && a > 0") == Cell(0.0));
  CHECK(worth("!a") == Cell(0.0));
  CHECK(worth("strategy == 'ddp'") == Cell(1.0));
  CHECK(worth("strategy != \"fsdp2\"") == Cell(1.0));
  CHECK(worth("strategy == 3") == Cell(0.0));
}

TEST_CASE("what is unknown stays unknown unless the other side decides") {
  CHECK(worth("none > 1") == Cell());
  CHECK(worth("none + 1") == Cell());
  CHECK(worth("not none") == Cell());
  CHECK(worth("none > 1 or a == 3") == Cell(1.0));
  CHECK(worth("a == 3 or none > 1") == Cell(1.0));
  CHECK(worth("none > 1 and a == 4") == Cell(0.0));
  CHECK(worth("none > 1 and a == 3") == Cell());
  CHECK(worth("1/0 > 3") == Cell());
  const Expression e = Expression::parse("none > 1", "--where", names);
  const auto nothing = [](const std::string&) { return Cell(); };
  CHECK(e.holds(nothing, true));
  CHECK_FALSE(e.holds(nothing, false));
}

TEST_CASE("the names that are asked for are known, each once") {
  const Expression e = Expression::parse("a*a + b > 3 and a < 9", "--where", names);
  CHECK(e.names() == std::vector<std::string>{"a", "b"});
}

TEST_CASE("what is no condition is refused at its place") {
  CHECK(refusal("a <") == "--where: 'a <': a value is missing, at its end");
  CHECK(refusal("a b") == "--where: 'a b': an operator is missing, at 'b'");
  CHECK(refusal("strategy == ddp") ==
        "--where: 'strategy == ddp': 'ddp' is neither a key nor an output; words stand in quotes: "
        "'ddp', at 'ddp'");
  CHECK(refusal("gpu < 3").find("did you mean 'gpus'") != std::string::npos);
  CHECK(refusal("1 < a < 4").find("do not chain") != std::string::npos);
  CHECK(refusal("(a").find("a ) is missing") != std::string::npos);
  CHECK(refusal("a)").find("an operator is missing") != std::string::npos);
  CHECK(refusal("'a").find("quotation does not end") != std::string::npos);
  CHECK(refusal("min(a)").find("second argument") != std::string::npos);
  CHECK(refusal("strategy + 1") == "--where: 'strategy + 1': reckons with the word 'ddp'");
  CHECK(refusal("").find("a value is missing") != std::string::npos);
  CHECK(refusal("a !! b") != "nothing");
  CHECK(refusal("1e999").find("no number") != std::string::npos);
  CHECK(refusal(std::string(3000, '(') + "a").find("parentheses deep") != std::string::npos);
  CHECK(refusal(std::string(3000, '-') + "a").find("signs deep") != std::string::npos);
  CHECK(refusal(std::string(3000, '!') + "a").find("negations deep") != std::string::npos);
  CHECK(refusal(std::string(20000, ' ')).find("longer than 10,000") != std::string::npos);
}
