#pragma once
// FSDP1's rate limiter (limit_all_gathers): a queue of CUDA events, taken literally.
//
// Each time a unit's flat parameter is freed, an event is recorded on the compute stream and
// queued. Each call of _unshard first looks: with two or more events queued it takes the oldest and
// *blocks the host* on it. Nothing ever clears the queue, so events left by one iteration are taken
// by the next: in the first iteration the gather of unit i waits for the end of forward(i-2); from
// the second on, the leftovers shift that by one, to forward(i-3).
//
//   three units, first iteration:  L2 waits f0; pre-backward of the root f1; prefetch of L0 f2
//   left for the next:             b2, b1, b0, bR
//
// So a pop may wait on an op of the step before; the schedule says `steps_back = 1` and names the
// op by its key, since the steady step repeats and its own later ops are meant. Source: PyTorch
// _limiter_utils.py, _runtime_utils.py (docs/sources.md 1.3). Tested by
// tests/unit/strategies/fsdp1_test.cpp (E-14).

#include <deque>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "sim/schedule/builder.hpp"

namespace stepcast::fsdp1 {

class Limiter {
 public:
  Limiter(ScheduleBuilder& builder, bool enabled) : builder_(builder), enabled_(enabled) {}

  // A flat parameter was freed after `op` on the compute stream.
  void freed_after(OpIndex op);
  // In _unshard: blocks the host on the oldest event if two or more are queued.
  void before_gather();
  // A step ends: what is still queued belongs to the step before from now on.
  void end_step();

 private:
  struct Event {
    OpIndex op = -1;
    bool previous_step = false;
    std::pair<Phase, UnitIndex> key{};
    int micro_batch = 0;
    Name verb;
  };
  // A wait on the previous step whose op index is known only once this step is complete.
  struct Pending {
    std::int32_t ref = 0;  // into Schedule::refs
    Event event;
  };

  ScheduleBuilder& builder_;
  bool enabled_;
  std::deque<Event> queue_;
  std::vector<Pending> pending_;
};

}  // namespace stepcast::fsdp1
