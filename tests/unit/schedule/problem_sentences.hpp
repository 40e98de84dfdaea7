#pragma once
// For tests of problems(): a small machine in text form, and what is wrong with programs on it.

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "sim/schedule/problems.hpp"
#include "sim/schedule/text.hpp"

namespace doctest {
template <>
struct StringMaker<std::vector<std::string>> {
  static String convert(const std::vector<std::string>& lines) {
    std::string text;
    for (const std::string& line : lines) text += "\n    " + line;
    return text.empty() ? "nothing" : text.c_str();
  }
};
}  // namespace doctest

namespace stepcast::test {

inline const std::string machine = R"(stepcast-schedule 1
schedule test
mesh shard=4
lane main
lane autograd
stream compute
stream comm
communicator shard axis=shard
communicator world axis=world
buffer weight parameter bf16 1KiB persistent
buffer low parameter bf16 512B persistent view_of=weight at=0B
buffer high parameter bf16 512B persistent view_of=weight at=512B
buffer full unsharded bf16 4KiB pool=compute
buffer other unsharded bf16 4KiB pool=compute
)";

inline std::vector<std::string> problems_of(const std::string& programs) {
  return problems(parse_schedule(machine + programs + "end\n", "test"));
}

inline std::vector<std::string> problems_of_step(const std::string& ops) {
  return problems_of("role all ranks=0..3\nstep steady\n" + ops);
}

using Sentences = std::vector<std::string>;

}  // namespace stepcast::test
