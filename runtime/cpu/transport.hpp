#pragma once
// What lies between the ranks of a run. A Rank enters the collectives of its communicators in order
// and asks how far they are; a Transport brings the ranks together:
//
//   Hall    ranks are threads of this process and read each other's memory (meeting.hpp)
//   Peers   one rank a process; tensors and words travel over a Wire, such as MPI (peers.hpp)
//
// Nobody blocks in here: a rank asks how far a collective is and does something else meanwhile. Who
// has nothing else to do sleeps until its Doorbell rings.
//
// The first failure ends the run on every rank. When a rank finds that nothing goes on, the
// Transport says who is missing where. Tested by tests/unit/runtime/executor_test.cpp and
// peers_test.cpp.

#include <atomic>
#include <chrono>
#include <condition_variable>
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

// One rank's part in one collective.
class Attendance {
 public:
  enum class Stage : std::uint8_t { gathering, under_way, over };

  virtual ~Attendance() = default;
  // under_way: all ranks are there. over: this rank's tensors are what they should be, and nobody
  // reads them any more.
  virtual Stage stage() const = 0;
  // When the last rank came, and when this one was through; of the run, and once stage() says so.
  virtual Seconds began() const = 0;
  virtual Seconds ended() const = 0;
  // Does of this rank's share what can be done now; false where there is nothing to do.
  virtual bool go_on() = 0;
};

class Transport {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Transport(const Schedule& schedule);
  virtual ~Transport() = default;

  // The rank's next collective on this communicator, its `number`th. `ready`: since when it could
  // have entered.
  virtual std::shared_ptr<Attendance> enter(CommIndex comm, int rank, std::int64_t number,
                                            const Collective& what, Operands mine,
                                            const Standing& standing, Seconds ready) = 0;
  // Whether a collective takes the time that the bytes need, or that of a cost table.
  virtual bool takes_its_own_time() const = 0;
  // Why nothing goes on, in words.
  virtual std::string who_is_missing() = 0;

  // The clock of the run.
  virtual void start() { start_clock(); }
  Seconds now() const { return std::chrono::duration<double>(Clock::now() - began_).count(); }
  Clock::time_point at(Seconds time) const {
    return began_ +
           std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(time));
  }

  int group_size(CommIndex comm) const;
  Doorbell& bell(int rank) { return *bells_[static_cast<std::size_t>(rank)]; }
  void stand(int rank, const Standing& standing);  // for the message of a hang
  // Some rank went on at this time (seconds of the run), or will at the end of a timed op.
  void progress(Seconds at);
  Seconds last_progress() const { return last_progress_.load(std::memory_order_relaxed); }

  // ---- failure: the first one ends the run on every rank
  virtual void fail(const std::string& message);
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  std::string failure() const;

 protected:
  void start_clock() { began_ = Clock::now(); }
  std::string name(const Standing& standing) const;
  std::string where_stands(int rank) const;  // "rank 1 has ended"; hold mutex_

  const Schedule& schedule_;
  mutable std::mutex mutex_;  // standings, failure text
  std::vector<Standing> standings_;

 private:
  Clock::time_point began_ = Clock::now();
  std::vector<std::unique_ptr<Doorbell>> bells_;
  std::atomic<Seconds> last_progress_{0};
  std::atomic<bool> failed_{false};
  std::string failure_;
};

// "rank 3", "ranks 0, 2".
std::string list_of_ranks(const std::vector<int>& ranks);
// "all_reduce of 4 fp32 elements"
std::string in_words(const Collective& collective);

}  // namespace stepcast::runtime
