#pragma once
// The only door to SimGrid: tasks that share resources of capacity 1.0, and a bell that rings at a
// given time.
//
//   gemm        1.0 ms alone, asks all of the SMs    \  started together: the collective is on time
//   collective  1.0 ms alone, asks 15 % of the SMs   /  (1.0 ms), the GEMM ends 15 % later (1.15
//   ms)
//
// A task is a SimGrid parallel task on its clock, a host of its own whose capacity is non-linear:
// SimGrid's solver asks for it whenever anything starts or ends, and the answer is the task's speed
// by bottleneck max fairness (sharing.hpp). So SimGrid owns time, events and progress, and we say
// how fast each task goes. All tasks also ask a common host for a trace, which is what makes
// SimGrid look at every running task when one comes or goes.
//
// Why the sharing is not left to SimGrid 3.32's own solvers of parallel tasks, both tried:
//   * host/solver:bmf aborts the process ("Unable to find a BMF allocation") on sound systems of
//     three tasks, depending on the order of their resources. It divides a contended resource by
//     its tasks less all tasks that run at their bound, on that resource or not; where this is
//     avoided its allocations can still run in a circle. Of the random schedules of one role in
//     tests/differential 7 % met it.
//   * host/solver:fairbottleneck takes what a task held by its clock uses off the capacity once a
//     round: a GEMM beside two collectives that hold 30 % of the SMs gets 56 % instead of 70 %.
//
// What else SimGrid makes us do, measured:
//   * Create a task only when it may start. A graph of tasks created beforehand is quadratic.
//   * No actors: tasks are started and their ends received in the main loop itself, 2 to 3 us a
//     task against 10 us with an actor per stream.
//   * An ended task is released some ends later: SimGrid still uses it in the end's own callback.
//   * The platform is sealed when the first run begins, so the clocks are made once: as many tasks
//     may run at a time (max_tasks).
//   * The clock goes on from run to run; times here count from the start of the run. A time that
//     differs from the exact one by the clock's rounding is the caller's to round.
//   * It sees neither the command line nor the signal handlers: both are kept from it.
//
// Cost: 3 us a task with up to three in flight, 10 us with 12, 150 us with 96 (the solver works on
// a dense matrix of the running tasks): ranks are folded into few roles.
//
// One run at a time, from one thread. Tested by tests/unit/engines/simgrid_tasks_test.cpp.

#include <cstdint>
#include <span>

#include "base/units.hpp"
#include "sim/engines/sharing.hpp"

namespace stepcast {

class SimgridTasks {
 public:
  static constexpr int max_tasks = 1024;  // running at the same time

  // Told what happens, from within run(). May start tasks and set bells; must not throw.
  class Listener {
   public:
    virtual ~Listener() = default;
    virtual void task_ended(int id) = 0;
    virtual void bell(std::int64_t id) = 0;
  };

  // A new run: time is 0.
  explicit SimgridTasks(Listener& listener);
  ~SimgridTasks();
  SimgridTasks(const SimgridTasks&) = delete;
  SimgridTasks& operator=(const SimgridTasks&) = delete;

  // Ids are 0 .. max_tasks-1 and free again when the task has ended. Alone it takes `solo` > 0.
  void start(int id, Seconds solo, std::span<const Ask> asks);
  void ring_at(Seconds time, std::int64_t id);
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
