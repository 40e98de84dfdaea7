#pragma once
// The figures of the last accepted run, data/recorded.toml: a change that makes one of them worse
// by more than its tolerance is seen (`stepcast validate --published --check`, a test).
//
//   tolerance = 0.3            # in the figures' own unit: percent or points
//   [llmf]
//   "step.check.median" = 2.9
//
// Worse is larger for errors, smaller for `.right` and for counts of rows. A figure that is gone is
// worse; a new one is not.

#include <string>
#include <string_view>
#include <vector>

#include "validate/published/ledger.hpp"

namespace stepcast {

// One sentence for each figure that got worse.
std::vector<std::string> worse_than_recorded(const Ledger& ledger, std::string_view recorded,
                                             const std::string& file);
std::string_view recorded_figures();  // as compiled in
std::string to_record(const Ledger& ledger);

}  // namespace stepcast
