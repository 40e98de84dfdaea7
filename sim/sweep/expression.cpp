#include "sim/sweep/expression.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>

#include "base/error.hpp"

namespace stepcast {

struct Expression::Node {
  std::string what;  // an operator, a function, "name", or "value"
  std::string name;
  Cell value;
  std::vector<std::unique_ptr<Node>> parts;
};

namespace {

using Node = Expression::Node;

constexpr std::size_t longest_text = 10'000;
constexpr int deepest = 200;

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

struct Function {
  std::string_view name;
  std::size_t arguments;
};
constexpr Function functions[] = {{"min", 2}, {"max", 2}, {"abs", 1}, {"floor", 1}, {"log2", 1}};

// Recursive descent, one function a level of precedence.
class Parser {
 public:
  Parser(const std::string& text, const std::string& flag, const std::vector<std::string>& known,
         std::vector<std::string>& names)
      : text_(text), flag_(flag), known_(known), names_(names) {}

  std::unique_ptr<Node> run() {
    if (text_.size() > longest_text) fail("is longer than 10,000 characters");
    std::unique_ptr<Node> root = either();
    skip();
    if (at_ < text_.size()) fail("an operator is missing");
    return root;
  }

 private:
  [[noreturn]] void fail(const std::string& why) const {
    const std::string rest = text_.substr(std::min(at_, text_.size()), 30);
    throw InputError({.file = flag_, .line = 0, .key = ""},
                     fmt::format("'{}': {}, at {}", text_.substr(0, 80), why,
                                 rest.empty() ? "its end" : "'" + rest + "'"));
  }

  void skip() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }

  // Takes the first of these that stands here; words only whole.
  std::string take(std::initializer_list<std::string_view> symbols) {
    skip();
    for (const std::string_view symbol : symbols) {
      if (text_.compare(at_, symbol.size(), symbol) != 0) continue;
      const std::size_t end = at_ + symbol.size();
      if (is_letter(symbol.front()) && end < text_.size() && is_letter(text_[end])) continue;
      at_ = end;
      return std::string(symbol);
    }
    return "";
  }

  using Level = std::unique_ptr<Node> (Parser::*)();
  std::unique_ptr<Node> left(Level next, std::initializer_list<std::string_view> symbols) {
    std::unique_ptr<Node> node = (this->*next)();
    for (std::string op = take(symbols); !op.empty(); op = take(symbols)) {
      auto joined = std::make_unique<Node>();
      joined->what = op == "&&" ? "and" : op == "||" ? "or" : op;
      joined->parts.push_back(std::move(node));
      joined->parts.push_back((this->*next)());
      node = std::move(joined);
    }
    return node;
  }

  std::unique_ptr<Node> either() {
    if (++depth_ > deepest) fail("more than 200 parentheses deep");
    std::unique_ptr<Node> node = left(&Parser::both, {"or", "||"});
    --depth_;
    return node;
  }
  std::unique_ptr<Node> both() { return left(&Parser::negation, {"and", "&&"}); }

  std::unique_ptr<Node> negation() {
    if (take({"not", "!"}).empty()) return comparison();
    auto node = std::make_unique<Node>();
    node->what = "not";
    if (++depth_ > deepest) fail("more than 200 negations deep");
    node->parts.push_back(negation());
    --depth_;
    return node;
  }

  std::unique_ptr<Node> comparison() {
    std::unique_ptr<Node> node = sum();
    std::string op = take({"<=", ">=", "==", "!=", "<", ">", "="});
    if (op.empty()) return node;
    auto compared = std::make_unique<Node>();
    compared->what = op == "=" ? "==" : op;
    compared->parts.push_back(std::move(node));
    compared->parts.push_back(sum());
    if (!take({"<=", ">=", "==", "!=", "<", ">", "="}).empty()) {
      fail("comparisons do not chain; accepted: a < b and b < c");
    }
    return compared;
  }

  std::unique_ptr<Node> sum() { return left(&Parser::product, {"+", "-"}); }
  std::unique_ptr<Node> product() { return left(&Parser::sign, {"*", "/", "%"}); }

  std::unique_ptr<Node> sign() {
    if (take({"-"}).empty()) return atom();
    auto node = std::make_unique<Node>();
    node->what = "negative";
    if (++depth_ > deepest) fail("more than 200 signs deep");
    node->parts.push_back(sign());
    --depth_;
    return node;
  }

  std::unique_ptr<Node> atom() {
    skip();
    if (at_ >= text_.size()) fail("a value is missing");
    auto node = std::make_unique<Node>();
    const char c = text_[at_];
    if (c == '(') {
      ++at_;
      node = either();
      if (take({")"}).empty()) fail("a ) is missing");
      return node;
    }
    if (c == '\'' || c == '"') {
      const std::size_t end = text_.find(c, at_ + 1);
      if (end == std::string::npos) fail("the quotation does not end");
      node->what = "value";
      node->value = text_.substr(at_ + 1, end - at_ - 1);
      at_ = end + 1;
      return node;
    }
    if ((c >= '0' && c <= '9') || c == '.') {
      double value = 0;
      const char* end = text_.data() + text_.size();
      const auto [last, error] = std::from_chars(text_.data() + at_, end, value);
      if (error != std::errc{} || !std::isfinite(value)) fail("no number");
      at_ = static_cast<std::size_t>(last - text_.data());
      node->what = "value";
      node->value = value;
      return node;
    }
    return named();
  }

  std::unique_ptr<Node> named() {
    const std::size_t begin = at_;
    std::size_t end = at_;
    while (end < text_.size() && is_letter(text_[end])) ++end;
    const std::string word = text_.substr(begin, end - begin);
    if (word.empty()) fail("a value is missing");
    auto node = std::make_unique<Node>();
    for (const Function& function : functions) {
      if (word != function.name || end >= text_.size() || text_[end] != '(') continue;
      at_ = end + 1;
      node->what = word;
      for (std::size_t i = 0; i < function.arguments; ++i) {
        if (i > 0 && take({","}).empty()) fail("a second argument is missing");
        node->parts.push_back(either());
      }
      if (take({")"}).empty()) fail("a ) is missing");
      return node;
    }
    if (word == "true" || word == "false") {
      at_ = end;
      node->what = "value";
      node->value = word == "true" ? 1.0 : 0.0;
      return node;
    }
    if (std::find(known_.begin(), known_.end(), word) == known_.end()) {
      const std::string near = nearest(word, known_);
      fail(fmt::format("'{}' is neither a key nor an output{}; words stand in quotes: '{}'", word,
                       near.empty() ? "" : " (did you mean '" + near + "'?)", word));
    }
    at_ = end;
    node->what = "name";
    node->name = word;
    if (std::find(names_.begin(), names_.end(), word) == names_.end()) names_.push_back(word);
    return node;
  }

  const std::string& text_;
  const std::string& flag_;
  const std::vector<std::string>& known_;
  std::vector<std::string>& names_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

// The truth of a value; nothing: unknown.
std::optional<bool> truth(const Cell& cell) {
  if (const double* number = std::get_if<double>(&cell)) return *number != 0;
  if (const auto* word = std::get_if<std::string>(&cell)) return *word == "true";
  return std::nullopt;
}
Cell cell_of(std::optional<bool> truth) { return truth ? Cell(*truth ? 1.0 : 0.0) : Cell(); }

class Reckoner {
 public:
  Reckoner(const Expression::Lookup& lookup, const std::string& text, const std::string& flag)
      : lookup_(lookup), text_(text), flag_(flag) {}

  Cell of(const Node& node) const {
    if (node.what == "value") return node.value;
    if (node.what == "name") return lookup_(node.name);
    if (node.what == "and" || node.what == "or") return joined(node, node.what == "or");
    const Cell a = of(*node.parts[0]);
    if (node.what == "not") {
      const std::optional<bool> is = truth(a);
      return is ? Cell(*is ? 0.0 : 1.0) : Cell();
    }
    const Cell b = node.parts.size() > 1 ? of(*node.parts[1]) : Cell(0.0);
    if (std::holds_alternative<std::monostate>(a) || std::holds_alternative<std::monostate>(b)) {
      return {};
    }
    if (node.what.find_first_of("<>=!") != std::string::npos) return compared(node, a, b);
    return reckoned(node.what, number(a), number(b));
  }

 private:
  Cell joined(const Node& node, bool decisive) const {
    const std::optional<bool> a = truth(of(*node.parts[0]));
    if (a && *a == decisive) return cell_of(a);
    const std::optional<bool> b = truth(of(*node.parts[1]));
    if (b && *b == decisive) return cell_of(b);
    return a && b ? cell_of(!decisive) : Cell();
  }

  // true and false are words in a scenario and numbers here.
  static Cell plain(const Cell& cell) {
    if (cell == Cell(std::string("true"))) return 1.0;
    if (cell == Cell(std::string("false"))) return 0.0;
    return cell;
  }

  Cell compared(const Node& node, const Cell& first, const Cell& second) const {
    const Cell a = plain(first), b = plain(second);
    const bool same_kind = a.index() == b.index();
    if (node.what == "==") return same_kind && a == b ? 1.0 : 0.0;
    if (node.what == "!=") return same_kind && a == b ? 0.0 : 1.0;
    const double x = number(a), y = number(b);
    const bool holds = node.what == "<"    ? x < y
                       : node.what == "<=" ? x <= y
                       : node.what == ">"  ? x > y
                                           : x >= y;
    return holds ? 1.0 : 0.0;
  }

  static Cell reckoned(const std::string& what, double x, double y) {
    const double value = what == "+"          ? x + y
                         : what == "-"        ? x - y
                         : what == "*"        ? x * y
                         : what == "/"        ? x / y
                         : what == "%"        ? std::fmod(x, y)
                         : what == "min"      ? std::min(x, y)
                         : what == "max"      ? std::max(x, y)
                         : what == "abs"      ? std::abs(x)
                         : what == "floor"    ? std::floor(x)
                         : what == "log2"     ? std::log2(x)
                         : what == "negative" ? -x
                                              : std::nan("");
    return std::isfinite(value) ? Cell(value) : Cell();  // divided by 0: nobody knows
  }

  double number(const Cell& cell) const {
    if (const double* value = std::get_if<double>(&cell)) return *value;
    throw InputError({.file = flag_, .line = 0, .key = ""},
                     fmt::format("'{}': reckons with the word '{}'", text_.substr(0, 80),
                                 std::get<std::string>(cell).substr(0, 40)));
  }

  const Expression::Lookup& lookup_;
  const std::string& text_;
  const std::string& flag_;
};

}  // namespace

Expression Expression::parse(const std::string& text, const std::string& flag,
                             const std::vector<std::string>& known) {
  Expression expression;
  expression.text_ = text;
  expression.flag_ = flag;
  expression.root_ = Parser(text, flag, known, expression.names_).run();
  return expression;
}

Cell Expression::value(const Lookup& lookup) const {
  return Reckoner(lookup, text_, flag_).of(*root_);
}

bool Expression::holds(const Lookup& lookup, bool unknown) const {
  return truth(value(lookup)).value_or(unknown);
}

}  // namespace stepcast
