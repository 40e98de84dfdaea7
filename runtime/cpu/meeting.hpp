#pragma once
// Where the ranks of a communicator meet: the n-th collective of each group is one Meeting that
// every member enters, works on in two halves (ring.hpp) and leaves when all are through.
//
//   enter     the last one to come opens the first half for everybody
//   first     each reduces its chunk; the last to finish opens the second half
//   second    each fetches the others' chunks; when all are through, nobody reads a peer any more
//
// A small one is done by who enters last, for everybody.
//
// Nobody blocks in here: a rank asks how far the meeting is and does something else meanwhile. Who
// has nothing else to do sleeps until its Doorbell rings.
//
// The Hall is all groups of all communicators of a run. When a rank finds that nothing goes on, the
// Hall knows who is missing where. Tested by tests/unit/runtime/executor_test.cpp.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/cpu/ring.hpp"
#include "sim/schedule/schedule.hpp"

namespace stepcast::runtime {

// Wakes a rank: something that it may wait for has happened.
class Doorbell {
 public:
  void ring();
  int count() const { return count_.load(std::memory_order_acquire); }
  // Returns when it has rung since `seen` was counted, or at `until`.
  void sleep(int seen, std::chrono::steady_clock::time_point until);

 private:
  std::atomic<int> count_{0};
  std::atomic<bool> asleep_{false};
  std::mutex mutex_;
  std::condition_variable rung_;
};

// Where a rank stands in its program.
struct Standing {
  int role = 0;
  int step = 0;
  int program = 0;
  OpIndex op = -1;
};

class Meeting {
 public:
  enum class Stage : std::uint8_t { gathering, first, second, over };

  Meeting(Collective what, Standing first_to_come, int members)
      : what_(what), standing_(first_to_come), all_(static_cast<std::size_t>(members)) {}

  const Collective& what() const { return what_; }
  Stage stage() const { return stage_.load(std::memory_order_acquire); }
  // Only while stage() allows: everybody's operands are known then.
  const std::vector<Operands>& all() const { return all_; }

 private:
  friend class Hall;
  Collective what_;
  Standing standing_;
  std::vector<Operands> all_;
  std::vector<int> entered_;  // members, in the order in which they came
  std::atomic<int> finished_{0};
  std::atomic<Stage> stage_{Stage::gathering};
};

class Hall {
 public:
  explicit Hall(const Schedule& schedule);

  int group_size(CommIndex comm) const;
  int index_of(CommIndex comm, int rank) const;

  // The rank's next collective on this communicator. Throws std::runtime_error where it is not the
  // one that others entered.
  std::shared_ptr<Meeting> enter(CommIndex comm, int rank, std::int64_t number,
                                 const Collective& what, Operands mine, const Standing& standing);
  // The rank has done its half; the last one opens the next stage.
  void finish_half(Meeting& meeting, CommIndex comm, int rank);

  Doorbell& bell(int rank) { return *bells_[static_cast<std::size_t>(rank)]; }
  void stand(int rank, const Standing& standing);  // for the message of a hang
  // Some rank went on at this time (seconds of the run), or will at the end of a timed op.
  void progress(Seconds at);
  Seconds last_progress() const { return last_progress_.load(std::memory_order_relaxed); }

  // ---- failure: the first one ends the run on every rank
  void fail(const std::string& message);
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  std::string failure() const;
  // Why nothing goes on: the oldest collective that some have entered and others have not.
  std::string who_is_missing() const;

 private:
  struct Group {
    std::vector<int> ranks;
    std::int64_t first = 0;  // number of the front meeting
    std::deque<std::shared_ptr<Meeting>> meetings;
  };
  Group& group(CommIndex comm, int rank);
  void wake(const Group& group);
  std::string name(const Standing& standing) const;

  const Schedule& schedule_;
  std::vector<std::vector<Group>> groups_;  // by communicator
  std::vector<std::vector<int>> group_of_;  // by communicator, rank
  std::vector<std::vector<int>> index_in_;  // by communicator, rank
  std::vector<std::unique_ptr<Doorbell>> bells_;
  mutable std::mutex mutex_;  // groups' meetings, standings, failure text
  std::vector<Standing> standings_;
  std::atomic<Seconds> last_progress_{0};
  std::atomic<bool> failed_{false};
  std::string failure_;
};

}  // namespace stepcast::runtime
