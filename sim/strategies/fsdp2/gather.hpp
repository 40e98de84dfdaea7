#pragma once
// Unshard and reshard: how FSDP2's parameters come and go, and why two gathers at most are alive.
//
//   unshard(i)   copy-in stream: cast the fp32 shard to the gather dtype, copy it into this rank's
//                slot of a new flat output; all-gather stream waits for that, gathers in place
//                (a block under fp8 all-gather: to fp8, which is gathered as bytes)
//   wait(i)      forward: both gather streams first wait for the copy-out of the group before
//                (CO(i-1)), whose flat output is freed; the compute stream waits for the gather,
//                parameters are allocated, copy-out runs on the compute stream
//   wait(i)      backward: the same, but the flat output of i itself is freed at once, after the
//                gather streams wait for CO(i)
//   reshard(i)   the parameters are freed; after forward with reshard_after_forward = n, a 1/n
//   slice
//                is cloned first, and backward gathers the slices within groups of n: 2ψ/n bytes
//                more a unit, and where a group lies in a node no gather between nodes in backward
//
// So the gather of i+1 cannot start before CO(i-1) in forward, nor that of i-1 before CO(i) in
// backward: two flat outputs alive, and the host never blocks. Three units, gather 2, forward 3:
//
//   all_gather  |AG0 |AG1 |AG2 |            AG2 may start once CO(0) is done (t=2)
//   compute          |F0   |F1   |F2   |
//
// HBM traffic of a unit of ψ elements (fp32 shard, bf16 gather): copy-in (4+2+2+2)ψ/W, copy-out
// 2ψ + 2ψ bytes. Source: PyTorch _fsdp_param_group.py, _fsdp_collectives.py (docs/sources.md 1.4).
// Tested by tests/unit/strategies/fsdp2_test.cpp (E-10, E-12, E-13, E-20).

#include "sim/strategies/common/layer_walk.hpp"
#include "sim/strategies/fsdp2/unit.hpp"

namespace stepcast::fsdp2 {

class Gather {
 public:
  Gather(ScheduleBuilder& builder, const TrainingStep& step, const Streams& streams,
         LayerWalk& walk)
      : builder_(builder), step_(step), streams_(streams), walk_(walk) {}

  // Root pre-forward: nothing is gathered before the optimizer has written the shards.
  void streams_wait_for_compute(Phase phase, int micro_batch);
  // No-op when the unit is unsharded or its gather is in flight.
  void unshard(Unit& unit, Phase phase, int micro_batch);
  void wait_forward(Unit& unit, int micro_batch);
  void wait_backward(Unit& unit, int micro_batch);
  // Root post-forward: the last flat output is released.
  void release_last();
  void reshard_after_forward(Unit& unit);
  void reshard(Unit& unit);

 private:
  void unshard_slice(Unit& unit);
  void scales_before_cast(const Unit& unit, const View& shard);
  void copy_out(Unit& unit, Phase phase, int micro_batch);
  void free_after_copy_out(BufferIndex gathered, OpIndex copy_out);

  ScheduleBuilder& builder_;
  const TrainingStep& step_;
  const Streams& streams_;
  LayerWalk& walk_;
  // The flat output that forward still holds, and its copy-out.
  BufferIndex held_ = -1;
  OpIndex held_copy_out_ = -1;
  OpIndex last_copy_out_ = -1;
};

}  // namespace stepcast::fsdp2
