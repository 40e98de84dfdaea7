#pragma once
// What one micro-batch is: its input, the dtype it is computed in, what of it is kept for backward,
// and the sizes that are refused. Tested by tests/unit/forecast/resolve_test.cpp.

#include "sim/forecast/resolve.hpp"
#include "sim/forecast/resolve_strategy.hpp"

namespace stepcast {

// Whether the GPU multiplies matrices in a dtype at all.
bool multiplies(const Gpu& gpu, Dtype dtype);

// Sets resolved.step.workload and its precision. Model, cluster and profile must be there; fp8 is
// resolve_fp8's. Throws InputError.
void resolve_workload(const Scenario& scenario, const StrategyChoice& strategy, Resolved& resolved);

}  // namespace stepcast
