#pragma once
// Post-backward: how a unit's gradients become this rank's gradient shard.
//
//   post_backward(i)  free the parameters; the compute stream waits for the reduce-scatter of the
//                     unit before (i+1) and drops its input; copy-in of all gradients with the cast
//                     to the reduce dtype; reduce-scatter (AVG) on its own stream; HSDP all-reduces
//                     the shard (hsdp/replicate.hpp); cast to the parameter's dtype and hand out
//
// So one reduce-scatter input at most is alive besides the one being made, and backward of i-2
// cannot start before the reduce-scatter of i is done. Nothing divides: NCCL averages.
//
// Accumulation over micro-batches:
//   last                  gradients are kept unsharded in the reduce dtype (fp32: 4ψ bytes)
//   every                 reduced each time, the shard is added to
//   reduce_scatter_every  HSDP: scattered each time and summed, all-reduced in the last
//
// HBM traffic of ψ elements, bf16 gradients and fp32 reduction: copy-in 2ψ + 4ψ bytes; view-out
// costs nothing where the reduce dtype is the parameter's. Source: PyTorch _fsdp_param_group.py,
// _fsdp_collectives.py (docs/sources.md 1.4, 2.3). Tested by tests/unit/strategies/fsdp2_test.cpp.

#include <vector>

#include "sim/strategies/common/layer_gradients.hpp"
#include "sim/strategies/common/layer_walk.hpp"
#include "sim/strategies/common/view_list.hpp"
#include "sim/strategies/fsdp2/unit.hpp"

namespace stepcast::fsdp2 {

class Reduce {
 public:
  Reduce(ScheduleBuilder& builder, const TrainingStep& step, const Streams& streams,
         LayerWalk& walk);

  // As backward produces them, layer by layer.
  LayerGradients& gradients() { return gradients_; }

  // `sync`: reduce now; otherwise keep the gradients unsharded. `replicate`: HSDP's all-reduce too.
  void post_backward(Unit& unit, int micro_batch, bool sync, bool replicate);
  // Root's final callback: the compute stream waits for every unit's reduction.
  void finalize(std::vector<Unit>& units, int micro_batch);
  // zero_grad(set_to_none) after the optimizer.
  void drop_gradients(std::vector<Unit>& units);

 private:
  void keep_unsharded(Unit& unit);
  void scatter(Unit& unit, BufferIndex target);
  void hand_out(Unit& unit, BufferIndex scattered, StreamIndex stream);
  Bytes gradient_bytes(const Unit& unit) const;

  ScheduleBuilder& builder_;
  const TrainingStep& step_;
  const Streams& streams_;
  LayerWalk& walk_;
  LayerGradients gradients_;
  BufferIndex previous_input_ = -1;  // of the reduce-scatter before, freed once it is done
  OpIndex previous_reduce_ = -1;
  std::vector<BufferIndex>
      held_to_the_end_;  // all-reduce inputs whose dtype is not the parameter's
};

}  // namespace stepcast::fsdp2
