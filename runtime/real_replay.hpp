#pragma once
// A replay whose collectives are real: compute ops take their time and compute nothing, as on a GPU
// that leaves the CPU alone, and collectives move as many bytes as they say, through the executor
// that would move them in training. What such a run takes is not known beforehand, so that a
// forecast can be held against it (validate/).
//
// Buffers have no memory (a model's would not fit). Each communicator of a rank has two tensors of
// the largest size that it ever moves, which every collective of it uses: one at a time, so nothing
// is overwritten that is still read.
//
// Nothing is stretched: bytes take the time that they take.
// Tested by tests/unit/runtime/real_replay_test.cpp.

#include <vector>

#include "runtime/replay.hpp"

namespace stepcast::runtime {

class RealReplay : public Replay {
 public:
  RealReplay(const Schedule& schedule, Durations durations);

  // Of all ranks together, in this process.
  static Bytes memory_of(const Schedule& schedule);

  bool moves() const override { return true; }
  Operands operands(const OpContext& context) override;
  Seconds duration(const OpContext& context) const override;

 private:
  struct Pair {
    std::vector<std::byte> send, receive;
  };
  std::vector<std::vector<Pair>> tensors_;  // by rank, communicator
};

}  // namespace stepcast::runtime
