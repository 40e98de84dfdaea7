#pragma once
// Inside of Peers: one communicator's queue of collectives, and this rank's part in one of them.

#include <sys/prctl.h>

#include "runtime/cpu/peers.hpp"

namespace stepcast::runtime {

// What a rank says when it enters a collective.
struct Arrival {
  std::int32_t kind = 0, reduction = 0, dtype = 0, root = 0;
  std::int64_t elements = 0;
  std::int32_t role = 0, step = 0, program = 0, op = 0, unused[2] = {};
};

inline Arrival arrival(const Collective& c, const Standing& s) {
  return {static_cast<int>(c.kind),
          static_cast<int>(c.reduction),
          static_cast<int>(c.dtype),
          c.root,
          c.elements,
          s.role,
          s.step,
          s.program,
          s.op,
          {}};
}

inline Collective collective(const Arrival& a) {
  return {static_cast<CollectiveKind>(a.kind), static_cast<Reduction>(a.reduction),
          static_cast<Dtype>(a.dtype), a.elements, a.root};
}

// A thread's sleeps end on time, not up to 50 us later.
inline void wake_on_time() { prctl(PR_SET_TIMERSLACK, 1000UL); }

class Peers::Part : public Attendance {
 public:
  Part(const Collective& what, Operands mine, const Standing& standing)
      : what_(what), mine_(mine), standing_(standing), words_(arrival(what, standing)) {}

  Stage stage() const override { return stage_.load(std::memory_order_acquire); }
  Seconds began() const override { return began_; }
  Seconds ended() const override { return ended_; }
  bool go_on() override { return false; }  // its communicator's thread does

  const Collective what_;
  const Operands mine_;
  const Standing standing_;
  std::vector<bool> entered_;  // by index in the group; under Peers::mutex_
  // Messages under way lie here, not on a stack that a failure unwinds.
  const Arrival words_;
  std::vector<Arrival> theirs_;
  Seconds began_ = 0, ended_ = 0;
  std::atomic<Stage> stage_{Stage::gathering};
};

struct Peers::Line {
  std::string name;
  std::vector<int> ranks;
  std::size_t me = 0;
  int channel = 0;  // arrivals; the next one is for tensors
  std::unique_ptr<WireRing> ring;
  std::mutex mutex;
  std::condition_variable filled;
  std::deque<std::shared_ptr<Part>> queue;  // the front one is being worked on; under `mutex`
  std::thread thread;
};

}  // namespace stepcast::runtime
