#pragma once
// DeepSpeed ZeRO stage 3: parameters, gradients and optimizer state partitioned; every module
// gathers its parameters before it runs and releases them after.
//
//   where             what
//   modules.hpp       what a fetch is
//   coordinator.hpp   which parameters are gathered when, and which are kept
//   partition.hpp     padding
//   ipg_bucket.hpp    when gradients are flushed
//   fetcher.hpp       gathers as ops; ZeRO++ hpZ's secondary shards
//   stage3_gradients.hpp  the way of a gradient into this rank's partition
//   stage3.cpp        the walk and the step
//
//   gather    one all-gather a fetch, on the all-gather stream, into a flat tensor; after the wait
//             the pieces of each parameter are copied together *on that stream*; at most two fetch
//             events are outstanding, then the host blocks
//   reduce    gradients are copied into the bucket on the reduce stream; a flush interleaves and
//             pads them by rank, divides by W, ONE reduce-scatter, and adds to this rank's
//             partition, in every micro-batch; the host blocks with more than two reductions
//             outstanding, and at the end of every backward
//   step      everything is released; norm read by the host; per sub-group (sub_group_size, 1e9
//             elements) gradients to fp32, times one factor (loss scale and clipping), Adam, copy
//             to 16 bits; the persistent parameters are gathered again
//
// Programs: "first" records the trace, so it gathers on demand and prefetches nothing; the second
// step is the steady one already.
//
// Source: DeepSpeed stage3.py, partitioned_param_coordinator.py (docs/sources.md 1.6). Tested by
// tests/unit/strategies/zero3_test.cpp (E-18, E-26).

#include "sim/strategies/strategy.hpp"

namespace stepcast::zero {

Schedule build_stage3(const TrainingStep& step);

}  // namespace stepcast::zero
