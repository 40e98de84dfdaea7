#pragma once
// The only door to SimGrid: shared resources of capacity 1.0, tasks that ask some of them for
// seconds of their time, a bell that rings at a given time. A task moves at one rate on all its
// resources; SimGrid's fair-bottleneck solver shares each resource equally among the tasks that
// want it and gives what one of them cannot use to the others.
//
//   gemm        sm 1.0 ms, its clock 1.0 ms   \  started together: the collective is on time
//   collective  sm 0.15 ms, its clock 1.0 ms  /  (1.0 ms), the GEMM ends 15 % later (1.15 ms)
//
// Why not SimGrid's bottleneck-max-fair solver (host/solver:bmf), which is the cleaner notion: in
// 3.32 it gives up and aborts the process ("Unable to find a BMF allocation") on sound systems as
// small as three tasks, depending on the order of their resources; 7 % of the random schedules of
// one role in tests/differential met one. Where it answers, the two differ by 0.2 % of the run on
// average and 3 % at most on those schedules, which contend all the time: fair-bottleneck may give
// a task more than its fair share of one resource, or leave a little of one idle, when tasks are
// held by different resources. It never gives out more than there is, and is three times as fast.
//
// What SimGrid 3.32 makes us do, measured:
//   * Create a task only when it may start. A graph of tasks created beforehand is quadratic.
//   * No actors: tasks are started and their ends received in the main loop itself, about 2 us a
//     task against 10 us with an actor per stream.
//   * An ended task is released some ends later: SimGrid still uses it in the end's own callback.
//   * The platform is sealed when the first run begins, so there is one pool of resources, made
//     once; more of them than it holds is an error (max_resources).
//   * The clock goes on from run to run; times here count from the start of the run. A time that
//     differs from the exact one by the clock's rounding is the caller's to round.
//   * It sees neither the command line nor the signal handlers: both are kept from it.
//
// One run at a time, from one thread. Tested by tests/unit/engines/simgrid_tasks_test.cpp.

#include <span>

#include "base/units.hpp"

namespace stepcast {

struct Share {
  int resource = 0;     // 0 .. max_resources-1
  Seconds seconds = 0;  // of its time; more than 0, and each resource at most once a task
};

class SimgridTasks {
 public:
  static constexpr int max_resources = 2048;

  // Told what happens, from within run(). May start tasks and set bells; must not throw.
  class Listener {
   public:
    virtual ~Listener() = default;
    virtual void task_ended(int id) = 0;
    virtual void bell(int id) = 0;
  };

  // A new run: time is 0. Nothing may be left of the run before.
  explicit SimgridTasks(Listener& listener);
  ~SimgridTasks();
  SimgridTasks(const SimgridTasks&) = delete;
  SimgridTasks& operator=(const SimgridTasks&) = delete;

  void start(int id, std::span<const Share> shares);
  void ring_at(Seconds time, int id);
  // Until no task is running and no bell is set.
  void run();
  // After this nothing is told any more; what is running ends unheard.
  void silence();

  Seconds now() const;
  // How far now() may be off by rounding: a few units in the last place of SimGrid's clock.
  Seconds resolution() const;

 private:
  Listener& listener_;
  double origin_ = 0;  // SimGrid's clock when the run began
};

}  // namespace stepcast
