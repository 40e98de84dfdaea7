#pragma once
// FSDP1's post-backward, all of it on one stream of its own:
//
//   compute        concatenate the per-parameter gradients into the flat one (split-backward)
//   post_backward  wait for compute; cast to the reduce dtype; divide by `pre`; reduce-scatter
//   (SUM);
//                  HYBRID: the all-reduce stream waits and all-reduces the shard; divide by `post`;
//                  cast to the parameter's dtype; add to an earlier micro-batch's shard
//
// Nothing on the compute stream ever waits for a reduce-scatter before the end: unlike FSDP2, more
// than one input may be alive (each is freed with record_stream).
// NO_SHARD all-reduces the whole flat gradient instead.
// Source: PyTorch _runtime_utils.py (docs/sources.md 1.3). Tested by
// tests/unit/strategies/fsdp1_test.cpp.

#include <vector>

#include "sim/strategies/common/layer_gradients.hpp"
#include "sim/strategies/common/layer_walk.hpp"
#include "sim/strategies/common/view_list.hpp"
#include "sim/strategies/fsdp1/average.hpp"
#include "sim/strategies/fsdp1/unit.hpp"

namespace stepcast::fsdp1 {

class Reduce {
 public:
  Reduce(ScheduleBuilder& builder, const TrainingStep& step, const Streams& streams,
         LayerWalk& walk);

  // As backward produces them, layer by layer.
  LayerGradients& gradients() { return gradients_; }
  // Concatenates the unit's gradients; with `sync` reduces them, else keeps them unsharded.
  void concatenate(Unit& unit, int micro_batch);
  void post_backward(Unit& unit, int micro_batch);
  void finalize(int micro_batch);
  void drop_gradients(std::vector<Unit>& units);

 private:
  ScheduleBuilder& builder_;
  const TrainingStep& step_;
  const Streams& streams_;
  LayerWalk& walk_;
  Average average_;
  LayerGradients gradients_;
  std::vector<OpRef> tails_;  // last ops on the post-backward and all-reduce streams
};

}  // namespace stepcast::fsdp1
