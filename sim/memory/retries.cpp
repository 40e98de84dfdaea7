#include "sim/memory/retries.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"

namespace stepcast {
namespace {

const Name verb_wait("wait_for_device");
const Name cuda_malloc("cuda_malloc");

// A host op at the place of the alloc that needs it.
Op before(const Op& alloc, OpKind kind, Name verb) {
  Op op;
  op.kind = kind;
  op.phase = alloc.phase;
  op.micro_batch = alloc.micro_batch;
  op.unit = alloc.unit;
  op.verb = verb;
  op.lane = alloc.lane;
  op.launches = 0;
  return op;
}

Op device_wait(const Op& alloc) {
  Op op = before(alloc, OpKind::host_wait, verb_wait);
  op.wait_target = WaitTarget::device;
  return op;
}

Op driver_calls(const Op& alloc, int calls) {
  Op op = before(alloc, OpKind::host_work, cuda_malloc);
  op.cost = cuda_malloc;
  op.count = calls;
  return op;
}

// Ops have moved: those that wait for others get refs of their own.
void renumber(Schedule& schedule, StepProgram& step, const std::vector<OpIndex>& to) {
  for (Op& op : step.ops) {
    if (op.waits.count == 0) continue;
    const auto first = static_cast<std::int32_t>(schedule.refs.size());
    for (std::int32_t i = 0; i < op.waits.count; ++i) {
      OpRef ref = schedule.refs[static_cast<std::size_t>(op.waits.first + i)];
      if (ref.op >= 0) ref.op = to[static_cast<std::size_t>(ref.op)];
      schedule.refs.push_back(ref);
    }
    op.waits.first = first;
  }
}

void insert(Schedule& schedule, StepProgram& step, const std::vector<AllocatorStall>& stalls) {
  std::vector<Op> ops;
  std::vector<OpIndex> to;
  auto stall = stalls.begin();
  for (std::size_t i = 0; i < step.ops.size(); ++i) {
    const Op& op = step.ops[i];
    if (stall != stalls.end() && stall->op == static_cast<OpIndex>(i)) {
      if (stall->retried) ops.push_back(device_wait(op));
      ops.push_back(driver_calls(op, stall->calls));
      ++stall;
    }
    to.push_back(static_cast<OpIndex>(ops.size()));
    ops.push_back(op);
  }
  STEPCAST_ASSERT(stall == stalls.end(), "stalls in the order of the ops, one an op");
  step.ops = std::move(ops);
  renumber(schedule, step, to);
}

}  // namespace

bool retries_in_step(const std::vector<RoleReplay>& replays) {
  return std::any_of(replays.begin(), replays.end(),
                     [](const RoleReplay& replay) { return replay.retries > 0; });
}

bool is_of_retry(const Op& op) { return op.verb == verb_wait || op.verb == cuda_malloc; }

bool retries_again(const Schedule& with, const std::vector<RoleReplay>& first,
                   const std::vector<RoleReplay>& second) {
  const auto retried = [](const std::vector<AllocatorStall>& stalls) {
    std::vector<OpIndex> ops;
    for (const AllocatorStall& stall : stalls) {
      if (stall.retried) ops.push_back(stall.op);
    }
    return ops;
  };
  for (std::size_t role = 0; role < first.size(); ++role) {
    const std::vector<OpIndex> then = retried(first[role].stalls);
    std::vector<OpIndex> now = retried(second[role].stalls);
    const std::vector<Op>& ops = with.roles[role].steps.back().ops;
    for (OpIndex& op : now) {  // its place without the ops that were added before it
      op -= static_cast<OpIndex>(std::count_if(ops.begin(), ops.begin() + op, is_of_retry));
    }
    if (now != then) return false;
  }
  return true;
}

Schedule with_retries(const Schedule& schedule, const std::vector<RoleReplay>& replays) {
  STEPCAST_ASSERT(replays.size() == schedule.roles.size(), "a replay a role");
  Schedule stalled = schedule;
  for (std::size_t role = 0; role < replays.size(); ++role) {
    if (replays[role].retries == 0) continue;
    insert(stalled, stalled.roles[role].steps.back(), replays[role].stalls);
  }
  return stalled;
}

}  // namespace stepcast
