#pragma once
// The only door to SimGrid: tasks that share resources of capacity 1.0, and a bell that rings at a
// given time.
//
//   gemm        1.0 ms alone, asks all of the SMs    \  started together: the collective is on time
//   collective  1.0 ms alone, asks 15 % of the SMs   /  (1.0 ms), the GEMM ends 15 % later (1.15
//   ms)
//
// A task is a SimGrid execution on its clock, a host of its own whose capacity is non-linear:
// SimGrid's solver asks for it when the clock changes, and the answer is the task's speed by
// bottleneck max fairness (sharing.hpp). So SimGrid owns time, events and progress, and we say how
// fast each task goes. To SimGrid the clocks have nothing to do with each other; so when a task
// comes or goes, the clocks of those it may share with (Sharing::neighbours) are changed from one
// frequency to another, both above any speed that is answered. That makes SimGrid look at them, and
// at no others.
//
// Why the sharing is not left to SimGrid 3.32's own solvers of parallel tasks, both tried:
//   * host/solver:bmf aborts the process ("Unable to find a BMF allocation") on sound systems of
//     three tasks, depending on the order of their resources. It divides a contended resource by
//     its tasks less all tasks that run at their bound, on that resource or not; where this is
//     avoided its allocations can still run in a circle. Of the random schedules of one role in
//     tests/differential 7 % met it.
//   * host/solver:fairbottleneck takes what a task held by its clock uses off the capacity once a
//     round: a GEMM beside two collectives that hold 30 % of the SMs gets 56 % instead of 70 %.
// Why tasks are no parallel tasks of SimGrid any more: its solver for those works on a dense matrix
// of all that runs, 6 us a start or end with six tasks, and scans them all for the next end. That
// was half of the time of a step with a slow rank.
//
// What else SimGrid makes us do, measured:
//   * Create a task only when it may start. A graph of tasks created beforehand is quadratic.
//   * Ends that lie within a nanosecond of each other are told as one (surf/precision).
//   * No actors: tasks are started and their ends received in the main loop itself, 2 to 3 us a
//     task against 10 us with an actor per stream.
//   * An ended task is released some ends later: SimGrid still uses it in the end's own callback.
//   * The platform is sealed when the first run begins, so the clocks are made once: as many tasks
//     may run at a time (max_tasks).
//   * The clock goes on from run to run, and rounds the coarser the further it is; times here count
//     from the start of the run. So that a run does not depend on those before it, to the last bit,
//     every run begins at a multiple of 2^-6 s from 4,096 s on: until 8,192 s the clock rounds to
//     2^-40 s (0.9 ps). From 6,144 s on it counts as worn, since a run takes its time: who runs
//     thousands of schedules and wants equal bits asks clock_is_worn() and goes on in a process
//     that is not. A time that differs from the exact one
//     by the clock's rounding is the caller's to round.
//   * It sees neither the command line nor the signal handlers: both are kept from it.
//
// Cost: 1.1 us a task with three in flight, 1.4 with 12, 3 with 96, 20 with 768; a bell 0.2 us.
//
// One run at a time, from one thread. Tested by tests/unit/engines/simgrid_tasks_test.cpp.

#include <cstdint>
#include <span>
#include <vector>

#include "base/units.hpp"
#include "sim/engines/message_carrier.hpp"
#include "sim/engines/messages.hpp"
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

  // Before the first run of the process: messages may go over these links beside the tasks. False
  // where SimGrid is already at work.
  static bool with_network(const std::vector<MessageLink>& links,
                           const std::vector<MessageConnection>& connections);
  static MessageCarrier& network();

  // A new run: time is 0.
  explicit SimgridTasks(Listener& listener);
  ~SimgridTasks();
  SimgridTasks(const SimgridTasks&) = delete;
  SimgridTasks& operator=(const SimgridTasks&) = delete;

  // Ids are 0 .. max_tasks-1 and free again when the task has ended. Alone it takes `solo` > 0.
  void start(int id, Seconds solo, std::span<const Ask> asks);
  // Asks without work, until it is let go: what only holds its share. Holds are numbered apart.
  void hold(int hold, std::span<const Ask> asks);
  void let_go(int hold);
  void ring_at(Seconds time, std::int64_t id);
  // Until no task is running and no bell is set.
  void run();
  // After this nothing is told any more; what is running ends unheard.
  void silence();

  Seconds now() const;
  // How far now() may be off by rounding: a few units in the last place of SimGrid's clock.
  Seconds resolution() const;
  // The clock of this process has gone so far that it rounds more coarsely than that of a new one.
  static bool clock_is_worn();

 private:
  Listener& listener_;
  double origin_ = 0;  // SimGrid's clock when the run began
};

}  // namespace stepcast
