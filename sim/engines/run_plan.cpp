#include "sim/engines/run_plan.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.hpp"

namespace stepcast {

RunPlan::RunPlan(const Schedule& schedule, const CostTable& costs, const RunOptions& options)
    : schedule_(schedule), costs_(costs), options_(options) {
  check(costs, schedule);
  STEPCAST_ASSERT(!schedule.roles.empty(), "a schedule without roles");
  const int count = static_cast<int>(schedule.roles.front().steps.size());
  STEPCAST_ASSERT(count > 0, "a schedule without steps");
  for (const Role& role : schedule.roles) {
    STEPCAST_ASSERT(static_cast<int>(role.steps.size()) == count,
                    "roles with different numbers of steps");
    same_.emplace_back(role.steps);
  }
  programs_ = options.programs;
  if (programs_.empty()) {
    STEPCAST_ASSERT(options.max_steady >= 1, "the steady step runs at least once");
    stop_when_steady_ = true;
    for (int p = 0; p + 1 < count; ++p) programs_.push_back(p);
    programs_.insert(programs_.end(), static_cast<std::size_t>(options.max_steady), count - 1);
  }
  for (const int p : programs_) STEPCAST_ASSERT(p >= 0 && p < count, "no such step program");
}

const StepProgram& RunPlan::ops_of(int role, int step) const {
  return schedule_.roles[static_cast<std::size_t>(role)]
      .steps[static_cast<std::size_t>(program(step))];
}

const Op& RunPlan::op(int role, OpAt at) const {
  return ops_of(role, at.step).ops[static_cast<std::size_t>(at.op)];
}

const std::vector<std::int32_t>& RunPlan::costs_of(int role, int step) const {
  return costs_.cost_of[static_cast<std::size_t>(role)][static_cast<std::size_t>(program(step))];
}

const OpCost& RunPlan::cost(int role, OpAt at) const {
  return costs_.cost(role, program(at.step), at.op);
}

Seconds RunPlan::delay(int role, int step) const {
  Seconds sum = 0;
  for (const Delay& delay : options_.delays) {
    if (delay.role == role && delay.step == step) sum += delay.seconds;
  }
  return sum;
}

OpAt RunPlan::resolve(int role, int step, OpRef ref) const {
  const int earlier = step - ref.steps_back;
  if (earlier < 0 || ref.op < 0) return {};
  const OpIndex op = same_[static_cast<std::size_t>(role)](
      static_cast<std::size_t>(program(step)), static_cast<std::size_t>(program(earlier)), ref.op);
  return op < 0 ? OpAt{} : OpAt{earlier, op};
}

bool RunPlan::steady_after(int step, Seconds length) {
  if (!stop_when_steady_) return false;
  const int steady = static_cast<int>(schedule_.roles.front().steps.size()) - 1;
  if (program(step) != steady) return false;
  const bool repeats = last_steady_ && std::abs(length - *last_steady_) <= 1e-9 * length;
  last_steady_ = length;
  return repeats;
}

namespace {

// Which group of the axis a rank is in.
std::int64_t group_of(const Mesh& mesh, Axis axis, std::int64_t rank) {
  switch (axis) {
    case Axis::world: return 0;
    case Axis::shard: return rank / std::max(1, mesh.shard);
    case Axis::replicate: return rank % std::max(1, mesh.shard);
  }
  return 0;
}

// For each role the lowest role that it meets on this axis, directly or by way of others.
std::vector<int> meeting_sets(const Schedule& schedule, Axis axis) {
  std::vector<int> set_of(schedule.roles.size());
  std::iota(set_of.begin(), set_of.end(), 0);
  std::vector<int> first(static_cast<std::size_t>(schedule.mesh.world_size()), -1);  // by group
  for (std::size_t r = 0; r < schedule.roles.size(); ++r) {
    const Role& role = schedule.roles[r];
    for (int i = 0; i < role.rank_count; ++i) {
      int& owner = first[static_cast<std::size_t>(group_of(schedule.mesh, axis, role.rank(i)))];
      if (owner < 0) owner = static_cast<int>(r);
      const int mine = set_of[r];
      const int theirs = set_of[static_cast<std::size_t>(owner)];
      if (mine == theirs) continue;
      std::replace(set_of.begin(), set_of.end(), std::max(mine, theirs), std::min(mine, theirs));
    }
  }
  return set_of;
}

}  // namespace

// Groups are looked at once: a role joins the set of every other that it shares a group with.
std::vector<int> RunPlan::peers(CommIndex comm, int role) const {
  if (roles() == 1) return {0};
  const auto c = static_cast<std::size_t>(comm);
  if (meets_.size() <= c) meets_.resize(schedule_.communicators.size());
  std::vector<int>& set_of = meets_[c];
  if (set_of.empty()) set_of = meeting_sets(schedule_, schedule_.communicators[c].axis);
  std::vector<int> met;
  for (int r = 0; r < roles(); ++r) {
    if (set_of[static_cast<std::size_t>(r)] == set_of[static_cast<std::size_t>(role)]) {
      met.push_back(r);
    }
  }
  return met;
}

StepSpan step_span(const RunPlan& plan, int step, Seconds begin, Seconds last_end) {
  StepSpan span;
  span.program_index = plan.program(step);
  span.program = plan.ops_of(0, step).name;
  span.begin = begin;
  span.end = std::max(begin, last_end);
  return span;
}

}  // namespace stepcast
