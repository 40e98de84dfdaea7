#pragma once
// One rank on its GPU: the schedule's streams are CUDA streams, its waits are events, and one
// thread plays its lanes.
//
//   lane      issues its ops in program order; host work and storage take their time on it
//   issue     whatever enqueues on a stream, allocates or frees is issued in the program's order
//             over all lanes: so streams and NCCL see the same order on every rank, which NCCL
//             needs of several communicators on one GPU
//   done      every op has an event before it and one behind it; the host asks the oldest of each
//             stream and takes the times
//
// CUDA's own queue of launches is about 1,024 deep, and the call that fills it blocks: behind a
// collective that a peer never enters, for ever. So the host stays within 256 ops of what is done
// (`ahead`), and never calls into a queue that is full.
//
// In two files: gpu_rank.cpp (set-up, what is done), gpu_rank_issue.cpp (lanes).
//
// The thread never waits in CUDA while ops are under way: it asks events, NCCL's errors and the
// rendezvous, in turn. Tested by tests/unit/cuda/gpu_executor_test.cpp, on the fake.

#include <deque>
#include <optional>
#include <vector>

#include "runtime/cpu/queues.hpp"
#include "runtime/cuda/communicators.hpp"
#include "runtime/cuda/device_memory.hpp"
#include "runtime/cuda/gpu_work.hpp"
#include "sim/schedule/same_ops.hpp"
#include "sim/schedule/timeline.hpp"

namespace stepcast::runtime {

// What all ranks of a process share.
struct GpuRun {
  const Schedule& schedule;
  GpuWork& work;
  Gpu& gpu;
  std::vector<int> programs;                                   // by executed step
  std::vector<std::vector<Queues>> queues;                     // by role, program
  std::vector<std::vector<std::vector<OpIndex>>> issue_order;  // by role, program
  std::vector<std::vector<std::vector<std::string>>> names;    // by role, program, op
};

// The ops of a program that are issued in its order, whatever their lane.
std::vector<OpIndex> issue_order_of(const StepProgram& program);

// When an op took place, seconds of the run.
struct OpTimes {
  Seconds issued = 0, start = 0, end = 0;
};

class GpuRank {
 public:
  // Streams, memory and first contents; the thread already uses the device.
  GpuRank(const GpuRun& run, int rank, int role);
  ~GpuRank();
  GpuRank(const GpuRank&) = delete;
  GpuRank& operator=(const GpuRank&) = delete;

  void begin(Communicators& comms);  // time zero
  // Issues, or sees that something is done. False when there was nothing to do.
  bool advance();
  bool done() const;
  void end();

  RankStanding standing();
  const DeviceMemory& memory() const { return *memory_; }
  // By executed step, op; those that took place.
  const std::vector<std::vector<OpTimes>>& times() const { return times_; }
  std::vector<MemorySample>& samples() { return samples_; }

 private:
  struct At {
    int step = -1;
    OpIndex op = -1;
  };
  struct OpState {
    bool issued = false;
    bool done = false;
    GpuEvent* before = nullptr;
    GpuEvent* behind = nullptr;
    DeviceMemory::Block* freed = nullptr;
  };
  struct Cursor {
    int step = 0;
    std::size_t at = 0;
  };
  struct Lane {
    Cursor cursor;
    bool begun = false;
    Seconds begin = 0, until = 0;
  };

  const Op& op(At at) const;
  int program(int step) const { return run_.programs[static_cast<std::size_t>(step)]; }
  const Queues& queues(int step) const;
  OpState& state(At at);
  std::optional<At> resolve(int step, OpRef ref);
  bool awaited_done(At at);
  bool host_ops_done(At at);
  bool drained(At upto, StreamIndex stream) const;
  OpContext context(At at);
  At lane_head(std::size_t lane);
  Seconds now() const;

  bool advance_lane(std::size_t lane);
  bool is_free_to_go(At at);
  void bind(At at);
  void issue(At at);
  void enqueue(At at);
  void release(At at);
  bool collect();
  void finish(At at);
  GpuEvent* event();
  void sample(At at);

  const GpuRun& run_;
  Gpu& gpu_;
  int rank_;
  int role_;
  Communicators* comms_ = nullptr;
  std::vector<GpuStream*> streams_;
  std::unique_ptr<DeviceMemory> memory_;
  std::vector<std::vector<OpState>> steps_;
  std::vector<std::vector<std::byte*>> views_;  // by step
  std::vector<std::vector<OpTimes>> times_;
  std::vector<Lane> lanes_;
  LaneLocks locks_;
  std::vector<bool> locked_;  // by lock
  Cursor next_issue_;
  std::vector<std::deque<At>> pending_;   // by stream: issued and not done
  std::vector<std::deque<At>> entering_;  // by communicator: the same of collectives
  std::vector<std::int64_t> through_;     // by communicator
  std::vector<At> waiting_frees_;
  SameOps same_;
  std::vector<GpuEvent*> idle_events_;
  GpuEvent* zero_ = nullptr;
  std::chrono::steady_clock::time_point began_;
  int ahead_ = 0;
  std::vector<MemorySample> samples_;
};

}  // namespace stepcast::runtime
