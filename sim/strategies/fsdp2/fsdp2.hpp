#pragma once
// FSDP2 (fully_shard): parameters, gradients and optimizer state sharded by rows; each unit is
// gathered before use and its gradients are reduce-scattered after backward. With a mesh that
// replicates, HSDP: the same plus one all-reduce a unit (hsdp/replicate.hpp).
//
//   where            what
//   unit.hpp         buffers and state of a unit, streams
//   sharding.hpp     padding of rows
//   gather.hpp       unshard, wait, reshard
//   prefetch.hpp     which unit is gathered ahead
//   reduce.hpp       post-backward
//   fsdp2.cpp        the walk: hooks in the order in which PyTorch runs them
//
// Source: PyTorch _fully_shard (docs/sources.md 1.4). Tested by
// tests/unit/strategies/fsdp2_test.cpp.

#include "sim/strategies/strategy.hpp"

namespace stepcast::fsdp2 {

Schedule build(const TrainingStep& step);

}  // namespace stepcast::fsdp2
