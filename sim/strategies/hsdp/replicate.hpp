#pragma once
// HSDP: shard inside a group, replicate across groups. What it adds to FSDP2 is one all-reduce a
// unit, of this rank's gradient shard, among the ranks with the same shard index.
//
//   reduce-scatter (shard communicator, NVLink) -> all-reduce (replicate communicator, NICs)
//
// It has a communicator and a stream of its own, so it overlaps gathers and reduce-scatters of
// other units; only the last one is always exposed. Volume a rank: 2 (R-1)/R of the shard. Source:
// PyTorch _fsdp_collectives.py (docs/sources.md 1.4). Tested by
// tests/unit/strategies/fsdp2_test.cpp (E-13).

#include "sim/strategies/fsdp2/unit.hpp"

namespace stepcast::hsdp {

// All-reduces `shard` after `scattered`; returns the op.
OpIndex replicate(ScheduleBuilder& builder, const TrainingStep& step, const fsdp2::Streams& streams,
                  const fsdp2::Unit& unit, OpIndex scattered, BufferIndex shard);

}  // namespace stepcast::hsdp
