// The two ends of a run by the ready queue: programs sorted by lane, stream and communicator before
// it, steps and the timeline after it.

#include <algorithm>

#include "sim/engines/memory_samples.hpp"
#include "sim/engines/ready_queue.hpp"

namespace stepcast {

ReadyQueue::ReadyQueue(RunPlan& plan)
    : plan_(plan),
      roles_(at(plan.roles())),
      remaining_(at(plan.steps()), 0),
      step_end_(at(plan.steps()), -1),
      host_end_(at(plan.steps()), 0) {
  for (int role = 0; role < plan.roles(); ++role) index(role);
  meet();
}

// Sorts the ops of every program by lane, stream and communicator, and makes room for the results.
void ReadyQueue::index(int role) {
  const Schedule& schedule = plan_.schedule();
  RoleState& state = roles_[at(role)];
  const std::size_t communicators = schedule.communicators.size();
  for (const StepProgram& program : schedule.roles[at(role)].steps) {
    ProgramIndex& lists = state.programs.emplace_back();
    lists.lanes.resize(std::max<std::size_t>(1, schedule.lanes.size()));
    lists.streams.resize(schedule.streams.size());
    lists.communicator_counts.resize(communicators);
    lists.position.resize(program.ops.size());
    for (std::size_t i = 0; i < program.ops.size(); ++i) {
      const Op& op = program.ops[i];
      lists.lanes[at(op.lane)].ops.push_back(static_cast<OpIndex>(i));
      if (runs_on_stream(op) || op.kind == OpKind::stream_wait) {
        lists.streams[at(op.stream)].ops.push_back(static_cast<OpIndex>(i));
      }
      if (op.kind == OpKind::collective) {
        lists.position[i] = lists.communicator_counts[at(op.comm)]++;
      }
    }
  }
  std::vector<int> sequence(communicators, 0);
  for (int step = 0; step < plan_.steps(); ++step) {
    const std::size_t ops = plan_.ops_of(role, step).ops.size();
    state.times.emplace_back(ops);
    remaining_[at(step)] += static_cast<int>(ops);
    state.first_sequence.push_back(sequence);
    const ProgramIndex& lists = state.programs[at(plan_.program(step))];
    for (std::size_t c = 0; c < communicators; ++c) sequence[c] += lists.communicator_counts[c];
  }
  state.streams.resize(schedule.streams.size());
  state.lanes.resize(std::max<std::size_t>(1, schedule.lanes.size()));
  std::vector<Name> locks;
  for (std::size_t l = 0; l < schedule.lanes.size(); ++l) {
    const Name lock = schedule.lanes[l].lock;
    if (lock.empty()) continue;
    const auto known = std::find(locks.begin(), locks.end(), lock);
    state.lanes[l].lock = static_cast<int>(known - locks.begin());
    if (known == locks.end()) locks.push_back(lock);
  }
  state.locks.assign(locks.size(), 0.0);
}

// One queue for each communicator and each set of roles that meet in it.
void ReadyQueue::meet() {
  for (std::size_t c = 0; c < plan_.schedule().communicators.size(); ++c) {
    for (RoleState& state : roles_) state.queue_of.push_back(-1);
    for (int role = 0; role < plan_.roles(); ++role) {
      if (roles_[at(role)].queue_of[c] >= 0) continue;
      CommunicatorQueue& queue = queues_.emplace_back();
      queue.communicator = static_cast<CommIndex>(c);
      queue.roles = plan_.peers(queue.communicator, role);
      queue.last.resize(roles_.size());
      for (const int r : queue.roles) {
        roles_[at(r)].queue_of[c] = static_cast<int>(queues_.size()) - 1;
      }
    }
  }
}

// ---- Results ------------------------------------------------------------------------------------

void ReadyQueue::close_steps() {
  while (!complete_ && remaining_[steps_.size()] == 0) {
    const int step = static_cast<int>(steps_.size());
    const Seconds begin = step == 0 ? 0 : steps_.back().end;
    const Seconds end = step_end_[at(step)] >= 0 ? step_end_[at(step)] : host_end_[at(step)];
    steps_.push_back(step_span(plan_, step, begin, end));
    complete_ = step + 1 == plan_.steps() ||
                plan_.steady_after(step, steps_.back().end - steps_.back().begin);
  }
}

Timeline ReadyQueue::timeline() const {
  Timeline result;
  result.steps = steps_;
  std::vector<MemorySamples> memory;
  for (int role = 0; role < plan_.roles(); ++role) memory.emplace_back(plan_, role);
  std::vector<Seconds> ends;
  for (int step = 0; step < static_cast<int>(steps_.size()); ++step) {
    for (int role = 0; role < plan_.roles(); ++role) {
      const std::vector<Op>& ops = plan_.ops_of(role, step).ops;
      const std::vector<OpTimes>& list = roles_[at(role)].times[at(step)];
      ends.clear();
      for (std::size_t i = 0; i < ops.size(); ++i) {
        const OpTimes& of = list[i];
        ends.push_back(of.end);
        const OpKind kind = ops[i].kind;
        if (kind == OpKind::stream_wait || kind == OpKind::alloc || kind == OpKind::free) continue;
        const Seconds issued = kind == OpKind::storage ? of.last
                               : ops[i].stream < 0     ? of.begin
                                                       : of.first;
        result.spans.push_back({role, step, static_cast<OpIndex>(i), issued, of.start, of.end,
                                of.solo, of.why.bound, of.why.cause.op,
                                std::max(0, of.why.cause.step), of.peer_wait});
      }
      if (plan_.options().memory) memory[at(role)].add_step(step, ends.data(), result.memory);
    }
  }
  return result;
}

}  // namespace stepcast
