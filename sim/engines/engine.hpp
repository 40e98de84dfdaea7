#pragma once
// Runs a schedule in simulated time. Two implementations, one meaning:
//
//   formula  max-plus walk, every op takes its solo time; the reference.
//   fluid    SimGrid tasks on resources of capacity 1.0: sees contention (sharing.hpp).
//
// Semantics that both share, op by op (tests/differential plays them against each other):
//   * a lane issues its ops in order; issuing takes OpCost::host seconds (paid before the op may
//     start: the first of `launches` equal parts before its start, the last before its end:
//     start >= issue begin + host/launches, end >= issue end + solo/launches);
//   * streams and communicators take their ops in program order, whichever lane issues them;
//   * an op on a stream starts when its stream's previous op is done, every earlier stream_wait of
//     that stream is met, its lane issued it, and (collective) the previous collective of its
//     communicator is done and every role of the communicator got there;
//   * roles meet in a communicator when they have ranks in one of its groups; the collective is one
//     for all of them and goes, segment by segment, at the pace of the slowest;
//   * host_wait blocks the lane; host_work occupies it; storage occupies it for its solo time;
//   * lanes of one role with one lock exclude each other while they issue and do host work, first
//     come first served; a lane that blocks (host_wait, storage) does not hold the lock;
//   * a Delay holds the lane that issues a role's first op of a step;
//   * the host runs ahead over the step boundary; nothing joins steps but the waits of the program.
// An engine that can move no further throws Deadlock naming each role's blocked op, and so it does
// when roles enter collectives of one communicator that differ in kind, size, type or root.
//
// A role that came to a collective before the others spins there: under the fluid engine it holds
// the collective's SMs from then on (fluid.cpp), under formula, which knows no contention, nothing.
//
// In the spans: `issued` is when the lane had issued the first launch (of host ops: turned to it),
// so issued <= start. Of several constraints met at the same time `bound` names the first of:
// stream or wait, communicator, host, peer. A host_wait starts when the lane comes to it; its bound
// says what ended it.
//
// A schedule must be free of problems() and the cost table must be for it (check(costs, schedule));
// engines assert what they would otherwise trip over. Not for several threads at a time.

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "sim/engines/cost_table.hpp"
#include "sim/schedule/schedule.hpp"
#include "sim/schedule/timeline.hpp"

namespace stepcast {

class Deadlock : public std::runtime_error {
 public:
  // A role that stands at a collective which others have not entered.
  struct Stall {
    int role = 0;
    int step = 0;
    OpIndex op = -1;           // -1: the role has ended, or something else than peers holds it
    Seconds since = 0;         // the collective could have begun by then as far as this role goes
    Seconds issued = 0;        // and its host had issued it: a watchdog's timeout runs from here
    std::vector<int> missing;  // the roles that have not entered
  };

  explicit Deadlock(const std::string& message, std::vector<Stall> where = {})
      : std::runtime_error(message), stalls(std::move(where)) {}

  std::vector<Stall> stalls;  // one for each role
};

// In this executed step the lane that issues the role's first op turns to it `seconds` later.
struct Delay {
  int role = 0;
  int step = 0;
  Seconds seconds = 0;
};

struct RunOptions {
  // Which StepPrograms to run, by index; empty: the first ones once each in order and the steady
  // one until its period is steady (at most max_steady times).
  std::vector<int> programs = {};
  int max_steady = 4;
  bool memory = true;  // record memory samples
  std::vector<Delay> delays = {};
};

class Engine {
 public:
  virtual ~Engine() = default;
  virtual std::string name() const = 0;
  virtual Timeline run(const Schedule& schedule, const CostTable& costs,
                       const RunOptions& options = {}) = 0;
};

std::unique_ptr<Engine> make_formula_engine();
std::unique_ptr<Engine> make_fluid_engine();  // SimGrid

}  // namespace stepcast
