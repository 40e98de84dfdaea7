#pragma once
// One rank at work: its lanes, streams and communicators as ordered queues, taken up by one thread.
//
// A rank is one thread, not one a stream: the schedule's order is kept by queues and waits, and a
// laptop has fewer cores than eight ranks have streams. Of the queues whose head may go on, the
// seed decides which does: so one run tries an interleaving that a GPU might show one day. Orders
// of preference are drawn anew every few dozen ops, which tries far apart interleavings (a stream
// left behind as long as nobody waits for it) sooner than tossing a coin for each op.
//
//   lane      issues ops in program order: binds their buffers, allocates, frees, waits
//   stream    takes its ops in program order once they are issued and its waits are met
//   free      memory goes back to its pool when the streams of the rule have passed it, and is
//             poisoned when the pool's stream begins its next op, the first that could use it again
//   timed     an op that takes seconds (replay) occupies its queue, not the thread. It begins when
//             what it waited for ended, not when the thread woke up to see that, as on a GPU, whose
//             streams need nobody to wake them: lateness does not add up from op to op
//
// A lane runs at most 1,024 ops ahead of the streams, like the launch queue of a GPU.
// Tested by tests/unit/runtime/executor_test.cpp.

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "runtime/cpu/memory.hpp"
#include "runtime/cpu/queues.hpp"
#include "runtime/cpu/transport.hpp"
#include "runtime/work.hpp"
#include "sim/schedule/same_ops.hpp"
#include "sim/schedule/timeline.hpp"

namespace stepcast::runtime {

// What all ranks share.
struct Run {
  const Schedule& schedule;
  Work& work;
  Transport& transport;
  std::vector<int> programs;                // by executed step
  std::vector<std::vector<Queues>> queues;  // by role, program

  Seconds now() const { return transport.now(); }
};

class Rank {
 public:
  Rank(const Run& run, int rank, int role, std::uint64_t seed, bool record);

  // Lets one queue go on by one op. False when none can.
  bool advance();
  bool done() const;
  // The next end of a timed op of this rank after `time`; nothing when none is running.
  std::optional<Seconds> next_end(Seconds time) const;
  void say_where_it_stands() const;

  std::vector<Span>& spans() { return spans_; }
  std::vector<MemorySample>& samples() { return samples_; }
  const RankMemory& memory() const { return memory_; }
  void start();
  void end();

 private:
  struct OpState {
    bool issued = false;
    bool done = false;
    std::int8_t passed = 0;  // stream queues that a free has passed
    Block* freed = nullptr;
    Seconds issued_at = 0;
    Seconds ended_at = 0;
  };
  struct StepState {
    std::vector<OpState> ops;
    std::vector<std::byte*> views;  // memory of every view of the step
  };
  struct Cursor {
    int step = 0;
    std::size_t at = 0;
  };
  struct At {
    int step = -1;
    OpIndex op = -1;
  };
  struct Lane {
    Cursor cursor;
    bool begun = false;  // its head has been turned to, and holds the lane until `until` at least
    bool held = false;   // its head could not begin when its turn came
    Seconds begin = 0, until = 0;
  };
  struct Stream {
    Cursor cursor;
    bool begun = false;  // its head has, and ends at `until` at the earliest
    Seconds begin = 0, until = 0;
    std::shared_ptr<Attendance> attendance;  // its head is a collective that has been entered
    Seconds entered = 0;
    // Memory of its pool that its next op may be the first to use again.
    std::vector<Block*> reusable;
    // What its next op may have been bound by.
    At last, wait;
    Seconds last_end = 0, wait_end = 0;
  };
  struct Comm {
    Cursor cursor;
    std::int64_t entered = 0;
    At last;
    Seconds last_end = 0;
  };

  const Op& op(At at) const;
  StepState& state(int step);
  OpState& state(At at) { return state(at.step).ops[static_cast<std::size_t>(at.op)]; }
  // The head of a queue, moving on to the next step where one ends; op < 0 at the end of the run.
  At head(Cursor& cursor, std::vector<std::vector<OpIndex>> Queues::*lists, std::size_t which);
  std::optional<At> resolve(int step, OpRef ref);
  bool awaited_done(At at);
  Seconds awaited_end(At at);
  void release_if_awaited_done();
  bool drained(At upto, StreamIndex stream);
  OpContext context(At at);

  bool advance_lane(std::size_t lane);
  bool may_go_on(const Lane& lane, At at);
  void issue(At at, Seconds when);
  bool advance_stream(std::size_t stream);
  bool advance_collective(Stream& stream, At at);
  void pass_free(At at);
  void give_back(At at);
  void poison_reusable(Stream& stream);
  Seconds ready_since(const Stream& stream, At at);
  void finish(Stream& stream, At at, Seconds end, Seconds solo, Bound bound, At cause,
              Seconds peer_wait = 0);
  void bind(At at);
  void record(At at, Seconds start, Seconds end, Seconds solo, Bound bound, At cause,
              Seconds peer_wait = 0);
  void sample(At at);

  const Run& run_;
  int rank_;
  int role_;
  bool record_;
  std::mt19937_64 random_;
  std::vector<std::size_t> preference_;  // lanes, then streams
  bool real_;                            // ops compute, and take the time that takes
  bool moves_;                           // collectives do
  RankMemory memory_;
  std::vector<StepState> steps_;
  std::vector<Lane> lanes_;
  std::vector<Stream> streams_;
  std::vector<Comm> comms_;
  LaneLocks locks_;
  std::vector<bool> locked_;       // by lock
  std::vector<At> waiting_frees_;  // free(after_op) whose op is not done yet
  SameOps same_;
  int ahead_ = 0;  // issued stream ops that are not done
  int until_redraw_ = 0;
  std::vector<Span> spans_;
  std::vector<MemorySample> samples_;
};

}  // namespace stepcast::runtime
