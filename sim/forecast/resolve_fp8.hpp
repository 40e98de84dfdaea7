#pragma once
// fp8, fp8_all_gather and fp8_precompute_scale of a scenario: what goes together, and on what.
// Tested by tests/unit/forecast/resolve_fp8_test.cpp.

#include "sim/forecast/resolve.hpp"

namespace stepcast {

// Sets the workload's recipe. The model, the cluster and the precision must be there. Throws
// InputError.
void resolve_fp8(const Scenario& scenario, const StrategyChoice& strategy, Resolved& resolved);

}  // namespace stepcast
