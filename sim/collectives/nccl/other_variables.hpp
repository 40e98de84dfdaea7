#pragma once
// Variables of NCCL and of PyTorch's use of it that the choice does not hear. People paste the
// environment of a whole launch script, so each is known and decided:
//
//   NCCL_DEBUG=INFO        no time of a step depends on it: taken, and a note says it changes
//   nothing NCCL_BUFFSIZE=1048576  times do, and nothing simulates how: refused, with the reason
//   NCCL_IB_DISABLE=0      the second kind at NCCL's own default: taken
//
// A name that is not here is a typo, or newer than this list. Tested by
// tests/unit/collectives/other_variables_test.cpp.

#include <string>
#include <string_view>
#include <vector>

namespace stepcast::nccl {

struct OtherVariable {
  std::string_view name;
  bool changes_times = false;
  std::string_view about;       // what it is about: "what is logged"
  std::string_view by_default;  // its value where nobody sets it; "" where that is no one value
};

// Null where the name is not known.
const OtherVariable* other_variable(std::string_view name);
const std::vector<OtherVariable>& other_variables();

// "nccl: nothing here depends on NCCL_DEBUG, NCCL_DEBUG_FILE (what is logged), ..."; "" for none.
std::string words_of_unheeded(const std::vector<std::string>& names);

}  // namespace stepcast::nccl
