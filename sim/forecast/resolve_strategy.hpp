#pragma once
// The strategy's part of resolve(): its mesh and options into Resolved::step, and what contradicts
// the strategy refused at the place where it was said. r.cluster is known already.

#include "sim/forecast/resolve.hpp"

namespace stepcast {

// Throws InputError.
void resolve_strategy_options(const Scenario& scenario, const StrategyChoice& strategy,
                              Resolved& resolved);

}  // namespace stepcast
