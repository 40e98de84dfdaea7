#pragma once
// What may start now: the bookkeeping of the three queues (lane, stream, communicator) for any
// number of roles, lanes with locks, and collectives that roles enter together. It knows neither
// how long things take nor that there is a solver: an engine derives from it, is told by begin()
// what may start and when, and answers with ended().
//
//   formula   answers at once: end = start + solo. Time is then just a number, and the queue works
//             through the program in whatever order things become known.
//   fluid     starts SimGrid tasks and answers when SimGrid says so. begin() may name a time to
//             come (the host issues it only then).
//
// Lanes run ahead: issue times are plain sums, so a lane is followed as far as it goes before the
// first wait that is not decided yet. Only locks need care: who asks first, gets it, so a grant
// waits until nothing else can be decided and then goes to the earliest request (every request
// still unknown depends on some grant or some end, and so comes later).
//
// Cost: after each end the idle streams and lanes of its roles are looked at, about ten checks.
// Internal to sim/engines. Tested by tests/unit/engines and tests/differential.

#include <deque>
#include <string>
#include <vector>

#include "sim/engines/constraint.hpp"
#include "sim/engines/run_plan.hpp"

namespace stepcast {

class ReadyQueue {
 public:
  explicit ReadyQueue(RunPlan& plan);
  virtual ~ReadyQueue() = default;
  ReadyQueue(const ReadyQueue&) = delete;
  ReadyQueue& operator=(const ReadyQueue&) = delete;

 protected:
  struct Member {
    int role = 0;
    OpAt at;
  };

  // Something in flight: an op on a stream, the ops of all roles of a collective, or a file op.
  struct Activity {
    std::vector<Member> members;
    Seconds start = 0;
    Seconds solo = 0;
    Seconds earliest_end = 0;  // its last kernels cannot run before they are launched
    int communicator = -1;     // into queues_
  };

  // May start at activity(id).start. Answer with ended(id, end), now or later.
  virtual void begin(int id) = 0;
  // The role came to a collective that is the next one of its communicator, and others have not:
  // its kernel waits from then on, until the collective begins.
  virtual void waits(const Member& member, Seconds since);
  // Whether a lock that is asked for at this time may be given away already.
  virtual bool may_grant(Seconds request) = 0;

  // Issues, waits and begins all that can; throws Deadlock for collectives that do not match.
  void settle();
  void ended(int id, Seconds end);

  const Activity& activity(int id) const { return activities_[static_cast<std::size_t>(id)]; }
  const RunPlan& plan() const { return plan_; }
  // All wanted steps are done (the period is steady, or there are no more).
  bool complete() const { return complete_; }
  // Throws Deadlock naming each role's blocked op. For when nothing is in flight and !complete().
  [[noreturn]] void deadlock() const;
  Timeline timeline() const;

 private:
  // ---- programs, sorted once
  struct OpList {
    std::vector<OpIndex> ops;  // of one lane or stream, in program order
  };
  struct ProgramIndex {
    std::vector<OpList> lanes, streams;
    std::vector<int> communicator_counts;
    std::vector<std::int32_t> position;  // of each collective among those of its communicator
  };
  using Queues = std::vector<OpList> ProgramIndex::*;

  // ---- where the run is
  struct Cursor {
    int step = 0;
    std::size_t next = 0;  // into the OpList of that step's program
  };
  struct OpTimes {
    Seconds begin = 0;   // the lane turned to it
    Seconds first = -1;  // its first launch was issued; -1: not yet
    Seconds last = 0;    // its last launch was issued
    Seconds start = 0;
    Seconds end = -1;  // -1: not yet known
    Seconds solo = 0;
    Seconds peer_wait = 0;
    Constraint why;
  };
  struct Lane {
    Cursor cursor;
    Seconds free = 0;      // when it can turn to the next op
    int lock = -1;         // into RoleState::locks
    bool asks = false;     // for the lock, since `free`
    bool granted = false;  // it may issue one op
    bool issued = false;   // the op at the cursor is issued and blocks the lane
    int delayed = -1;      // the last step whose delay is paid
  };
  struct Stream {
    Cursor cursor;
    bool busy = false;
    Constraint tail;  // what holds the next op
  };
  struct RoleState {
    std::vector<ProgramIndex> programs;
    std::vector<Lane> lanes;
    std::vector<Stream> streams;
    std::vector<Seconds> locks;                    // free from
    std::vector<std::vector<OpTimes>> times;       // per step, per op
    std::vector<std::vector<int>> first_sequence;  // per step, per communicator
    std::vector<int> queue_of;                     // communicator -> queues_
    bool dirty = true;                             // something ended or was issued
  };
  struct Entry {
    Member member;
    Constraint tail;  // of its stream
    bool waits = false;
  };
  struct CommunicatorQueue {
    CommIndex communicator = -1;
    std::vector<int> roles;
    std::vector<OpAt> last;  // per role: its collective that ended last
    Seconds tail = 0;        // and when
    bool busy = false;
    std::size_t head = 0;                    // sequence number of the next collective
    std::deque<std::vector<Entry>> entered;  // by sequence number, from head on
  };

  void index(int role);
  void meet();
  OpAt head(int role, Cursor& cursor, Queues queues, std::size_t index) const;
  OpTimes& times(int role, OpAt where);
  const OpTimes& times(int role, OpAt where) const;
  void advance_lane(int role, std::size_t index);
  bool pass(int role, Lane& lane, const Op& op, OpAt here);
  void begin_storage(int role, OpAt here);
  bool grant_lock();
  bool target_known(int role, OpAt awaited, Constraint& held) const;
  bool wait_known(int role, OpAt here, Constraint& held) const;
  bool stream_passed(int role, OpAt last, Constraint& held) const;
  OpAt tail_before(int role, OpAt here, std::size_t stream) const;
  void advance_stream(int role, std::size_t index);
  void enter(int role, OpAt here, const Constraint& tail);
  void try_collective(int number);
  Seconds joint_solo(const Activity& together) const;
  int new_activity();
  void set_end(int role, OpAt here, Seconds end);
  void close_steps();
  void check_same(const Member& one, const Member& other) const;
  std::string describe(const Member& member) const;
  std::string blocked(int role, Deadlock::Stall& stall) const;

  RunPlan& plan_;
  std::vector<RoleState> roles_;
  std::vector<CommunicatorQueue> queues_;
  std::vector<Activity> activities_;
  std::vector<int> free_activities_;
  std::vector<int> remaining_;     // per step: ops of all roles without an end
  std::vector<Seconds> step_end_;  // per step: last end on a stream; -1: none
  std::vector<Seconds> host_end_;  // per step: last end of the other ops
  std::vector<StepSpan> steps_;    // the ones that are done
  bool complete_ = false;
};

// The formula engine by way of the queue, for any schedule; tests hold it against list_walk().
Timeline formula_queue(RunPlan& plan);

}  // namespace stepcast
