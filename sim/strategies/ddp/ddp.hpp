#pragma once
// DistributedDataParallel: replicate everything, all-reduce gradients in buckets while backward
// runs.
//
// Steps: the steady one; with TrainingStep::first_step also
//   first    one bucket with the whole model: a single all-reduce after backward, no overlap
//   second   its forward rebuilds the buckets in gradient-ready order (two small broadcasts that
//            block the host), and from then on the layout is the steady one
// Source: PyTorch distributed.py and reducer.cpp (docs/sources.md 1.2).
// Tested by tests/unit/strategies/ddp_test.cpp.

#include "sim/strategies/strategy.hpp"

namespace stepcast::ddp {

Schedule build(const TrainingStep& step);

}  // namespace stepcast::ddp
