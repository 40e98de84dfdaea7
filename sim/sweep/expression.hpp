#pragma once
// Conditions on points: `micro_batch*accumulation*gpus <= 1024 and strategy != 'ddp'`.
//
//   numbers, 'words', names of keys and outputs
//   ( )   - not   * / %   + -   < <= > >= == != =   and &&   or ||
//   min(a, b)  max(a, b)  abs(a)  floor(a)  log2(a)
//
// A name may have no value at a point (bucket_cap_mb under fsdp2, a step time of what was refused):
// what is worked out from it is unknown, and so is a comparison with it; `unknown or true` is true,
// `unknown and false` false. Who asks decides what an unknown condition means.
//
// Tested by tests/unit/sweep/expression_test.cpp.

#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

namespace stepcast {

// Nothing, a number (true is 1), or a word.
using Cell = std::variant<std::monostate, double, std::string>;

class Expression {
 public:
  // Throws InputError at `flag`, which says at what character. `known`: the names there are.
  static Expression parse(const std::string& text, const std::string& flag,
                          const std::vector<std::string>& known);

  using Lookup = std::function<Cell(const std::string& name)>;
  // Throws InputError where a word is reckoned with.
  Cell value(const Lookup& lookup) const;
  // Whether it holds; `unknown` where that is not known.
  bool holds(const Lookup& lookup, bool unknown) const;

  const std::vector<std::string>& names() const { return names_; }  // that it asks for
  const std::string& text() const { return text_; }

  struct Node;

 private:
  std::string text_, flag_;
  std::vector<std::string> names_;
  std::shared_ptr<const Node> root_;
};

}  // namespace stepcast
