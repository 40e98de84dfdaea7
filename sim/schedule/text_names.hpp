#pragma once
// How the text form spells names, numbers and enumerators; shared by printer and parser.
//
// A word is bare where it holds only letters, digits and _ . : / * ~ # - and does not begin with #;
// anything else is quoted: "Ring/Simple 24ch". A comment is a # at the start of a field, so that
// forward.wait#2 needs no quotes. A bare - alone is "none".

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/kernel.hpp"
#include "base/units.hpp"
#include "sim/schedule/schedule.hpp"

namespace stepcast::text {

bool is_bare_character(char c);
std::string spelled(std::string_view word);  // bare or quoted

// Exact and human: the largest of B, KiB, MiB, GiB that divides it. "772MiB", "1001B".
std::string spelled_bytes(Bytes bytes);

// Unique labels for things that may share a name: "grad", "grad#2". Where a label differs from the
// name, the declaration says name=.
std::vector<std::string> unique_labels(const std::vector<Name>& names);

// An op's label split as PHASE.VERB[.UNIT][.mN][#K]. The printer uses it to see what must be said
// besides, the parser to read it.
struct OpLabel {
  std::optional<Phase> phase;  // none: not the name of a phase
  std::string verb;
  std::optional<std::string> unit;
  std::int64_t micro_batch = 0;
};
OpLabel split_op_label(std::string_view label);

std::string_view to_string(KernelKind kind);

// to_string of either namespace.
inline std::string_view name_of(KernelKind kind) { return text::to_string(kind); }
template <typename Enum>
std::string_view name_of(Enum value) {
  return stepcast::to_string(value);
}

// The enumerators 0..last as they are spelled.
template <typename Enum>
std::vector<std::string> enum_names(Enum last) {
  std::vector<std::string> names;
  for (int i = 0; i <= static_cast<int>(last); ++i) {
    names.emplace_back(name_of(static_cast<Enum>(i)));
  }
  return names;
}

// Launches that the text leaves out: the sum over the kernels of a compute, 1 for a collective and
// a copy, none for the rest.
int usual_launches(const Schedule& schedule, const Op& op);

}  // namespace stepcast::text
