#pragma once
// What both engines need to know about one run before it starts: which StepPrograms run, what an
// OpRef of an executed step points at, what each op costs, and when the period is steady.
//
// Example: programs {first, steady}, max_steady 4: step 0 runs `first`, steps 1 to 4 run `steady`,
// and the run ends early once two steady steps took the same time. In step 1 a reference two steps
// back points at nothing; one step back it points into `first`, at the op with the same key.
//
// Internal to sim/engines. Tested by tests/unit/engines/steps_test.cpp and roles_test.cpp.

#include <optional>
#include <vector>

#include "sim/engines/cost_table.hpp"
#include "sim/engines/engine.hpp"
#include "sim/schedule/same_ops.hpp"
#include "sim/schedule/schedule.hpp"
#include "sim/schedule/timeline.hpp"

namespace stepcast {

// An op of an executed step of some role.
struct OpAt {
  std::int32_t step = -1;
  OpIndex op = -1;
  bool exists() const { return op >= 0; }
  friend bool operator==(OpAt a, OpAt b) { return a.step == b.step && a.op == b.op; }
};

class RunPlan {
 public:
  RunPlan(const Schedule& schedule, const CostTable& costs, const RunOptions& options);

  const Schedule& schedule() const { return schedule_; }
  const CostTable& costs() const { return costs_; }
  const RunOptions& options() const { return options_; }

  int roles() const { return static_cast<int>(schedule_.roles.size()); }
  int steps() const { return static_cast<int>(programs_.size()); }  // at most
  int program(int step) const { return programs_[static_cast<std::size_t>(step)]; }
  const StepProgram& ops_of(int role, int step) const;
  const Op& op(int role, OpAt at) const;
  // The cost of op i of step `step` is costs_of(role, step)[i], an index into costs().costs or -1.
  const std::vector<std::int32_t>& costs_of(int role, int step) const;
  const OpCost& cost(int role, OpAt at) const;

  // How much later the role begins this step than its program says.
  Seconds delay(int role, int step) const;

  // The op a reference of step `step` means; !exists() when there is none (nothing to wait for).
  OpAt resolve(int role, int step, OpRef ref) const;

  // True when the run may end after a step of this length: the steady program ran twice in
  // succession with the same period, to 1e-9. Call for each step in order.
  bool steady_after(int step, Seconds length);

  // Roles whose ranks meet in this communicator, directly or by way of others: they enter its
  // collectives together. Two roles in different groups of an axis do not meet. Includes `role`.
  std::vector<int> peers(CommIndex comm, int role) const;

 private:
  const Schedule& schedule_;
  const CostTable& costs_;
  RunOptions options_;
  std::vector<int> programs_;
  bool stop_when_steady_ = false;
  std::optional<Seconds> last_steady_;
  mutable std::vector<SameOps> same_;            // by role
  mutable std::vector<std::vector<int>> meets_;  // per communicator, per role: its set
};

// The step that takes in what happens from the end of the step before to the last end in it.
StepSpan step_span(const RunPlan& plan, int step, Seconds begin, Seconds last_end);

}  // namespace stepcast
