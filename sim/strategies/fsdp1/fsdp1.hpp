#pragma once
// FSDP1 (FullyShardedDataParallel): flat parameters, five sharding strategies.
//
//   where               what
//   flat_parameter.hpp  layout and padding of a unit
//   limiter.hpp         limit_all_gathers, event by event
//   gather.hpp          unshard, use, reshard
//   prefetch.hpp        BACKWARD_PRE, BACKWARD_POST, none; forward_prefetch
//   average.hpp         pre- and post-division
//   reduce.hpp          post-backward
//   fsdp1.cpp           the walk: hooks in the order in which PyTorch runs them
//
// Steps: "first" (the limiter's queue starts empty, no forward order is known) and "steady".
// Source: PyTorch _runtime_utils.py (docs/sources.md 1.3). Tested by
// tests/unit/strategies/fsdp1_test.cpp (E-11, E-14).

#include "sim/strategies/strategy.hpp"

namespace stepcast::fsdp1 {

Schedule build(const TrainingStep& step);

}  // namespace stepcast::fsdp1
