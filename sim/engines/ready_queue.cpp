#include "sim/engines/ready_queue.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace stepcast {
ReadyQueue::OpTimes& ReadyQueue::times(int role, OpAt where) {
  return roles_[at(role)].times[at(where.step)][at(where.op)];
}

const ReadyQueue::OpTimes& ReadyQueue::times(int role, OpAt where) const {
  return roles_[at(role)].times[at(where.step)][at(where.op)];
}

// The next op of a lane (stream), in whichever step it comes; !exists() at the end of the run.
OpAt ReadyQueue::head(int role, Cursor& cursor, Queues queues, std::size_t index) const {
  for (; cursor.step < plan_.steps(); ++cursor.step, cursor.next = 0) {
    const ProgramIndex& lists = roles_[at(role)].programs[at(plan_.program(cursor.step))];
    const std::vector<OpIndex>& ops = (lists.*queues)[index].ops;
    if (cursor.next < ops.size()) return {cursor.step, ops[cursor.next]};
  }
  return {};
}

void ReadyQueue::settle() {
  for (bool again = true; again && !complete_;) {
    again = false;
    for (int role = 0; role < plan_.roles(); ++role) {
      RoleState& state = roles_[at(role)];
      if (!state.dirty) continue;
      again = true;
      state.dirty = false;
      for (std::size_t l = 0; l < state.lanes.size(); ++l) advance_lane(role, l);
      for (std::size_t s = 0; s < state.streams.size(); ++s) advance_stream(role, s);
    }
    if (!again) again = grant_lock();
    close_steps();
  }
}

// ---- Lanes --------------------------------------------------------------------------------------

void ReadyQueue::advance_lane(int role, std::size_t index) {
  RoleState& state = roles_[at(role)];
  Lane& lane = state.lanes[index];
  while (true) {
    const OpAt here = head(role, lane.cursor, &ProgramIndex::lanes, index);
    if (!here.exists()) return;
    const Op& op = plan_.op(role, here);
    if (!lane.issued) {
      if (here.op == 0 && lane.delayed != here.step) {
        lane.delayed = here.step;
        lane.free += plan_.delay(role, here.step);
      }
      Seconds begin = lane.free;
      const Seconds host = plan_.cost(role, here).host;
      if (lane.lock >= 0) {
        lane.asks = !lane.granted;
        if (lane.asks) return;
        lane.granted = false;
        begin = std::max(begin, state.locks[at(lane.lock)]);
        state.locks[at(lane.lock)] = begin + host;
      }
      OpTimes& of = times(role, here);
      of.begin = begin;
      of.first = first_launch(begin, op, host);
      of.last = begin + host;
      lane.free = of.last;
      lane.issued = true;
      state.dirty = true;
      if (op.kind == OpKind::storage) begin_storage(role, here);
    }
    if (!pass(role, lane, op, here)) return;
    lane.issued = false;
    ++lane.cursor.next;
  }
}

// Ends the host op at the head of the lane if it can end by now; false while it blocks the lane.
bool ReadyQueue::pass(int role, Lane& lane, const Op& op, OpAt here) {
  OpTimes& of = times(role, here);
  switch (op.kind) {
    case OpKind::compute:
    case OpKind::copy:
    case OpKind::collective:
    case OpKind::stream_wait: return true;  // its stream goes on with it
    case OpKind::storage:
      if (of.end >= 0) lane.free = of.end;
      return of.end >= 0;
    case OpKind::host_wait: {
      Constraint held{of.last, Bound::host, {}};
      if (!wait_known(role, here, held)) return false;
      lane.free = held.at;
      of.why = held;
      break;
    }
    case OpKind::host_work:
      of.why = {of.begin, of.begin > 0 ? Bound::host : Bound::start, {}};
      break;
    case OpKind::alloc:
    case OpKind::free: break;
  }
  of.start = of.begin;
  of.solo = plan_.cost(role, here).host;
  set_end(role, here, lane.free);
  return true;
}

void ReadyQueue::begin_storage(int role, OpAt here) {
  OpTimes& of = times(role, here);
  of.why = {of.last, of.last > 0 ? Bound::host : Bound::start, {}};
  const int id = new_activity();
  Activity& file = activities_[at(id)];
  file.members.push_back({role, here});
  file.start = of.last;
  file.solo = plan_.cost(role, here).solo;
  of.start = file.start;
  of.solo = file.solo;
  begin(id);
}

bool ReadyQueue::grant_lock() {
  Lane* first = nullptr;
  int of = -1;
  for (int role = 0; role < plan_.roles(); ++role) {
    for (Lane& lane : roles_[at(role)].lanes) {
      if (lane.asks && (first == nullptr || lane.free < first->free)) {
        first = &lane;
        of = role;
      }
    }
  }
  if (first == nullptr || !may_grant(first->free)) return false;
  first->asks = false;
  first->granted = true;
  roles_[at(of)].dirty = true;
  return true;
}

// ---- Waits --------------------------------------------------------------------------------------

bool ReadyQueue::target_known(int role, OpAt awaited, Constraint& held) const {
  if (!awaited.exists()) return true;
  const OpTimes& of = times(role, awaited);
  if (of.end < 0) return false;
  held.later(of.end, Bound::wait, awaited);
  return true;
}

// Whether all that the wait op waits for has ended; then `held` is the latest of it.
bool ReadyQueue::wait_known(int role, OpAt here, Constraint& held) const {
  const Op& op = plan_.op(role, here);
  for (const OpRef& ref : plan_.schedule().at_refs(op.waits)) {
    if (!target_known(role, plan_.resolve(role, here.step, ref), held)) return false;
  }
  if (op.kind != OpKind::host_wait || op.wait_target == WaitTarget::ops) return true;
  for (std::size_t s = 0; s < plan_.schedule().streams.size(); ++s) {
    if (op.wait_target == WaitTarget::stream && op.wait_stream != static_cast<int>(s)) continue;
    if (!stream_passed(role, tail_before(role, here, s), held)) return false;
  }
  return true;
}

// The same for a stream, whose last op may be a wait: then what it waited for is the cause.
bool ReadyQueue::stream_passed(int role, OpAt last, Constraint& held) const {
  if (!last.exists()) return true;
  if (plan_.op(role, last).kind != OpKind::stream_wait) return target_known(role, last, held);
  const OpTimes& of = times(role, last);
  if (of.end < 0) return false;
  held.later(of.end, Bound::wait, of.why.cause);
  return true;
}

// The op of the stream that was issued last before `here`.
OpAt ReadyQueue::tail_before(int role, OpAt here, std::size_t stream) const {
  for (int step = here.step; step >= 0; --step) {
    const auto& ops = roles_[at(role)].programs[at(plan_.program(step))].streams[stream].ops;
    const auto end =
        step == here.step ? std::lower_bound(ops.begin(), ops.end(), here.op) : ops.end();
    if (end != ops.begin()) return {step, *(end - 1)};
  }
  return {};
}

// ---- Streams and communicators ------------------------------------------------------------------

void ReadyQueue::advance_stream(int role, std::size_t index) {
  RoleState& state = roles_[at(role)];
  Stream& stream = state.streams[index];
  while (!stream.busy) {
    const OpAt here = head(role, stream.cursor, &ProgramIndex::streams, index);
    if (!here.exists()) return;
    OpTimes& of = times(role, here);
    if (of.first < 0) return;
    const Op& op = plan_.op(role, here);
    if (op.kind == OpKind::stream_wait) {
      Constraint held = stream.tail;
      held.later(of.first, Bound::host);
      if (!wait_known(role, here, held)) return;
      stream.tail = of.why = held;
      ++stream.cursor.next;
      set_end(role, here, held.at);
      continue;
    }
    stream.busy = true;
    if (op.kind == OpKind::collective) {
      enter(role, here, stream.tail);
      continue;
    }
    of.why = stream.tail;
    of.why.later(of.first, Bound::host);
    const int id = new_activity();
    Activity& kernels = activities_[at(id)];
    kernels.members.push_back({role, here});
    kernels.start = of.start = of.why.at;
    kernels.solo = of.solo = plan_.cost(role, here).solo;
    kernels.earliest_end = earliest_end(op, of.last, of.solo);
    begin(id);
  }
}

// The role's stream has come to this collective.
void ReadyQueue::enter(int role, OpAt here, const Constraint& tail) {
  RoleState& state = roles_[at(role)];
  const Op& op = plan_.op(role, here);
  const int number = state.queue_of[at(op.comm)];
  CommunicatorQueue& queue = queues_[at(number)];
  const std::size_t sequence =
      at(state.first_sequence[at(here.step)][at(op.comm)] +
         state.programs[at(plan_.program(here.step))].position[at(here.op)]);
  STEPCAST_ASSERT(sequence >= queue.head, "a collective entered twice");
  if (queue.entered.size() <= sequence - queue.head) {
    queue.entered.resize(sequence - queue.head + 1);
  }
  std::vector<Entry>& entries = queue.entered[sequence - queue.head];
  if (!entries.empty()) check_same(entries.front().member, {role, here});
  entries.push_back({{role, here}, tail});
  try_collective(number);
}

// Begins the next collective of the communicator when the one before is done and all roles came.
void ReadyQueue::try_collective(int number) {
  CommunicatorQueue& queue = queues_[at(number)];
  if (queue.busy || queue.entered.empty()) return;
  if (queue.entered.front().size() < queue.roles.size()) {
    for (Entry& entry : queue.entered.front()) {
      if (entry.waits) continue;
      entry.waits = true;
      waits(entry.member,
            std::max({entry.tail.at, queue.tail, times(entry.member.role, entry.member.at).first}));
    }
    return;
  }
  const std::vector<Entry> entries = std::move(queue.entered.front());
  queue.busy = true;
  queue.entered.pop_front();
  ++queue.head;

  const int id = new_activity();
  Activity& together = activities_[at(id)];
  together.communicator = number;
  Seconds start = 0;
  for (const Entry& entry : entries) {
    const OpAt here = entry.member.at;
    OpTimes& of = times(entry.member.role, here);
    of.why = entry.tail;
    of.why.later(queue.tail, Bound::communicator, queue.last[at(entry.member.role)]);
    of.why.later(of.first, Bound::host);
    start = std::max(start, of.why.at);
    together.members.push_back(entry.member);
  }
  together.start = start;
  together.solo = joint_solo(together);
  for (const Entry& entry : entries) {
    OpTimes& of = times(entry.member.role, entry.member.at);
    of.peer_wait = start - of.why.at;
    of.why.later(start, Bound::peer);
    of.start = start;
    of.solo = together.solo;
    together.earliest_end =
        std::max(together.earliest_end,
                 earliest_end(plan_.op(entry.member.role, entry.member.at), of.last, of.solo));
  }
  begin(id);
}

void ReadyQueue::waits(const Member&, Seconds) {}

// Segment by segment the collective goes at the pace of its slowest role.
Seconds ReadyQueue::joint_solo(const Activity& together) const {
  if (together.members.size() == 1) {
    return plan_.cost(together.members[0].role, together.members[0].at).solo;
  }
  Seconds sum = 0;
  std::int32_t count = 1;
  for (std::int32_t i = 0; i < count; ++i) {
    Seconds slowest = 0;
    for (const Member& member : together.members) {
      const OpCost& cost = plan_.cost(member.role, member.at);
      count = std::max(count, cost.segments.count);
      if (i >= cost.segments.count) continue;
      slowest = std::max(slowest, plan_.costs().segments_of(cost)[at(i)].solo);
    }
    sum += slowest;
  }
  return sum;
}

// ---- Ends ---------------------------------------------------------------------------------------

int ReadyQueue::new_activity() {
  if (free_activities_.empty()) {
    activities_.emplace_back();
    return static_cast<int>(activities_.size()) - 1;
  }
  const int id = free_activities_.back();
  free_activities_.pop_back();
  activities_[at(id)].members.clear();
  activities_[at(id)].communicator = -1;
  activities_[at(id)].earliest_end = 0;
  return id;
}

void ReadyQueue::ended(int id, Seconds end) {
  const int number = activities_[at(id)].communicator;
  for (const Member& member : activities_[at(id)].members) {
    const Op& op = plan_.op(member.role, member.at);
    if (op.stream >= 0) {
      Stream& stream = roles_[at(member.role)].streams[at(op.stream)];
      stream.tail = {end, Bound::stream, member.at};
      stream.busy = false;
      ++stream.cursor.next;
    }
    if (number >= 0) queues_[at(number)].last[at(member.role)] = member.at;
    set_end(member.role, member.at, end);
  }
  free_activities_.push_back(id);
  if (number < 0) return;
  queues_[at(number)].tail = end;
  queues_[at(number)].busy = false;
  try_collective(number);
}

void ReadyQueue::set_end(int role, OpAt here, Seconds end) {
  times(role, here).end = end;
  roles_[at(role)].dirty = true;
  --remaining_[at(here.step)];
  Seconds& last =
      runs_on_stream(plan_.op(role, here)) ? step_end_[at(here.step)] : host_end_[at(here.step)];
  last = std::max(last, end);
}

}  // namespace stepcast
