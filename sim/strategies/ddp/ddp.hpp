#pragma once
// DistributedDataParallel: replicate everything, all-reduce gradients in buckets while backward
// runs.
//
// Steps: the steady one; with TrainingStep::first_step also "construction" and the iterations
// before the layout of the buckets is final (layout.hpp).
// Roles: one, unless ranks differ: "uses" and "skips" where a parameter is unused on some ranks
// only, "active" and "joined" under join().
// Source: PyTorch distributed.py and reducer.cpp (docs/sources.md 1.2).
// Tested by tests/unit/strategies/ddp_test.cpp and its neighbours ddp_*_test.cpp.

#include "sim/strategies/strategy.hpp"

namespace stepcast::ddp {

// InputError for options that contradict each other.
void check_options(const TrainingStep& step);

Schedule build(const TrainingStep& step);

}  // namespace stepcast::ddp
