#pragma once
// The queues of one StepProgram, worked out once: which ops stand on each lane, stream and
// communicator, in program order, and what each waits for.
//
// A stream's queue holds more than its kernels: the waits of that stream, and the frees that may
// take effect only when it has passed them. Example (compute: 0, nccl: 1):
//
//   program                        lane        stream 0    stream 1
//   0 compute  stream 0            issue       run
//   1 stream_wait stream 1 on 0    issue                   wait until 0 is done
//   2 collective stream 1          issue                   run
//   3 free b, after stream 1       issue       pass        pass: b's memory is free
//
// (b's pool is stream 0: memory goes back to the stream that it was allocated on.)

#include <vector>

#include "sim/schedule/schedule.hpp"

namespace stepcast::runtime {

struct Queues {
  Queues(const Schedule& schedule, const StepProgram& program);

  std::vector<std::vector<OpIndex>> lanes;
  std::vector<std::vector<OpIndex>> streams;
  std::vector<std::vector<OpIndex>> communicators;
  // By op: where its views stand among all views of the step (reads, then writes).
  std::vector<std::int32_t> first_view;
  std::int32_t views = 0;
  // By op: in how many stream queues a free stands; it takes effect in the last.
  std::vector<std::int8_t> passes;
};

// Only these block their stream or run on it; the rest are marks in its queue.
inline bool runs_on_stream(const Op& op) {
  return op.kind == OpKind::compute || op.kind == OpKind::collective || op.kind == OpKind::copy;
}

// Lanes of one process may share a lock (Python's GIL), which an op holds while it is issued.
struct LaneLocks {
  explicit LaneLocks(const Schedule& schedule);
  std::vector<int> of_lane;  // below zero: none
  std::size_t count = 0;

  // Whether the op takes its lane's lock: a wait and a file are waited for without it.
  bool takes(std::size_t lane, const Op& op) const {
    return of_lane[lane] >= 0 && op.kind != OpKind::host_wait && op.kind != OpKind::storage;
  }
};

}  // namespace stepcast::runtime
