#pragma once
// FSDP1's unshard and reshard.
//
//   _unshard(i)  pre-unshard stream: cast the shard to the gather dtype; the unshard stream waits
//   for
//                it; the limiter may block the host (limiter.hpp); the flat tensor is allocated in
//                the unshard stream's pool; all-gather. No copy-out: parameters are views of it.
//   use(i)       the compute stream waits for the whole tail of the unshard stream, so for gathers
//                issued later than i's too
//   reshard(i)   the flat tensor is freed with record_stream: reusable only once the compute stream
//                has passed; an event goes to the limiter
//
// Source: PyTorch _runtime_utils.py (docs/sources.md 1.3). Tested by
// tests/unit/strategies/fsdp1_test.cpp (E-11, E-14).

#include "sim/strategies/common/layer_walk.hpp"
#include "sim/strategies/fsdp1/limiter.hpp"
#include "sim/strategies/fsdp1/unit.hpp"

namespace stepcast::fsdp1 {

class Gather {
 public:
  Gather(ScheduleBuilder& builder, const TrainingStep& step, const Streams& streams,
         LayerWalk& walk)
      : builder_(builder),
        step_(step),
        streams_(streams),
        walk_(walk),
        limiter_(builder, step.strategy.limit_all_gathers) {}

  void streams_wait_for_compute(int micro_batch);
  void unshard(Unit& unit, Phase phase, int micro_batch);
  void use(const Unit& unit, Phase phase, int micro_batch);
  void reshard(Unit& unit);
  // NO_SHARD: the low-precision copy goes after backward; the limiter hears nothing of it.
  void drop_copy(Unit& unit);
  void end_step();

 private:
  ScheduleBuilder& builder_;
  const TrainingStep& step_;
  const Streams& streams_;
  LayerWalk& walk_;
  Limiter limiter_;
  OpIndex unshard_tail_ = -1;
};

}  // namespace stepcast::fsdp1
