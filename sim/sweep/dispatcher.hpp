#pragma once
// Gives points to workers and takes their results, each point once.
//
// A worker is a process (the fluid engine is SimGrid's, one a process), forked here or come from
// another rank, at the other end of a channel. It has a batch in hand of some tenth of a second and
// is given the next one before it runs out. Batches are runs of neighbours in work order, so that
// what neighbours share is made once (evaluator.hpp), and get shorter towards the end, so that all
// workers end together.
//
// A worker that dies (out of memory, a crash, a host that is gone) loses what it had in hand: all
// of that is given out again. The point that it was at may be to blame, so a point that two workers
// died of becomes a result, "failed", and the sweep goes on.
//
// Cost: some 20 us a point here, the database included. Tested by
// tests/unit/sweep/dispatcher_test.cpp and tests/cli/sweep_test.cpp.

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "sim/sweep/channel.hpp"
#include "sim/sweep/points.hpp"
#include "sim/sweep/ranks.hpp"
#include "sim/sweep/worker.hpp"

namespace stepcast {

struct DispatchOptions {
  int jobs = 1;                                 // workers of this process
  Door* door = nullptr;                         // for other ranks; may be null
  const std::atomic<bool>* stop = nullptr;      // ends early, with what there is
  std::function<void(const std::string&)> say;  // a line for people: a worker that died
};

class Dispatcher {
 public:
  // Forks the workers.
  Dispatcher(WorkOut work_out, DispatchOptions options);
  ~Dispatcher();  // sends them home
  Dispatcher(const Dispatcher&) = delete;
  Dispatcher& operator=(const Dispatcher&) = delete;

  using Take = std::function<void(std::size_t point, const Result& result)>;
  // All points by this engine, in this order. `take` is called in the order in which they are done,
  // `pause` often: about every 20 ms while something happens, and every 200 ms otherwise. False:
  // stopped early.
  bool run(const std::vector<std::size_t>& order, const std::string& engine, const Take& take,
           const std::function<void()>& pause);

  int workers() const;  // that have come and not gone

 private:
  struct Worker {
    Channel channel;
    pid_t process = -1;  // -1: of another rank
    bool greeted = true;
    std::deque<std::size_t> in_hand;
    double seconds_a_point = 0;  // 0: not known yet
    std::chrono::steady_clock::time_point last;
  };

  void fork_worker();
  void feed(Worker& worker);
  std::size_t batch_for(const Worker& worker) const;
  void take_from(Worker& worker, const Take& take);
  bool handle(Worker& worker, const std::string& message, const Take& take);
  void bury(Worker& worker, const Take& take);
  void admit();

  WorkOut work_out_;
  DispatchOptions options_;
  std::deque<Worker> workers_;
  std::deque<std::size_t> waiting_;   // points to be given out
  std::vector<std::uint8_t> deaths_;  // by point
  std::string engine_;
  std::size_t left_ = 0;  // points without a result
};

}  // namespace stepcast
