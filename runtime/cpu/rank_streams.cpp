// A rank's streams: what runs on them, how collectives meet, when freed memory may be used again.

#include <algorithm>
#include <utility>

#include "runtime/cpu/rank.hpp"

namespace stepcast::runtime {

bool Rank::advance_stream(std::size_t which) {
  Stream& stream = streams_[which];
  const At at = head(stream.cursor, &Queues::streams, which);
  if (at.op < 0) return false;
  const Op& o = op(at);
  OpState& mine = state(at);
  if (!mine.issued) return false;
  if (o.kind == OpKind::free) {
    pass_free(at);
    ++stream.cursor.at;
    return true;
  }
  if (o.kind == OpKind::stream_wait) {
    if (!awaited_done(at)) return false;
    mine.done = true;
    for (const OpRef ref : run_.schedule.at_refs(o.waits)) {
      const auto awaited = resolve(at.step, ref);
      if (!awaited || state(*awaited).ended_at < stream.wait_end) continue;
      stream.wait = *awaited;
      stream.wait_end = state(*awaited).ended_at;
    }
    ++stream.cursor.at;
    return true;
  }
  if (o.kind == OpKind::collective) return advance_collective(stream, at);
  if (!stream.begun) {
    poison_reusable(stream);
    stream.begin = real_ ? run_.now() : ready_since(stream, at);
    run_.work.run(context(at));
    stream.until = stream.begin + run_.work.duration(context(at));
    stream.begun = true;
  }
  if (run_.now() < stream.until) return false;
  const Seconds end = real_ ? run_.now() : stream.until;
  finish(stream, at, end, stream.until - stream.begin, Bound::start, {});
  return true;
}

// Entered, worked on by all, and (replay) the time that it takes.
bool Rank::advance_collective(Stream& stream, At at) {
  const Op& o = op(at);
  const auto c = static_cast<std::size_t>(o.comm);
  Comm& comm = comms_[c];
  const At turn = head(comm.cursor, &Queues::communicators, c);
  if (turn.step != at.step || turn.op != at.op) return false;  // another stream's is before it
  if (!stream.attendance) {
    poison_reusable(stream);
    const Operands operands = moves_ ? run_.work.operands(context(at)) : Operands{};
    stream.entered = real_ ? run_.now() : std::max(ready_since(stream, at), comm.last_end);
    stream.attendance = run_.transport.enter(
        o.comm, rank_, comm.entered++, {o.collective, o.reduction, o.dtype, o.elements, o.root},
        operands, {role_, at.step, run_.programs[static_cast<std::size_t>(at.step)], at.op},
        stream.entered);
    return true;
  }
  Attendance& attendance = *stream.attendance;
  const bool own_time = run_.transport.takes_its_own_time() || (moves_ && !real_);
  if (!stream.begun) {
    if (attendance.stage() == Attendance::Stage::gathering) return false;
    stream.begin = attendance.began();
    stream.until = stream.begin + (own_time ? 0 : run_.work.duration(context(at)));
    stream.begun = true;
    return true;
  }
  if (attendance.go_on()) return true;
  if (attendance.stage() != Attendance::Stage::over || run_.now() < stream.until) return false;
  const Seconds end = own_time || real_ ? attendance.ended() : stream.until;
  stream.attendance.reset();
  if (real_) run_.work.finished(context(at));
  ++comm.cursor.at;
  const At before = std::exchange(comm.last, at);
  const Seconds comm_end = std::exchange(comm.last_end, end);
  const bool queued = before.op >= 0 && comm_end >= stream.last_end &&
                      comm_end >= stream.wait_end && comm_end >= state(at).issued_at;
  finish(stream, at, end, own_time ? end - stream.begin : stream.until - stream.begin,
         queued ? Bound::communicator : Bound::start, queued ? before : At{},
         stream.begin - stream.entered);
  return true;
}

// Since when its head could have begun.
Seconds Rank::ready_since(const Stream& stream, At at) {
  return std::max({state(at).issued_at, stream.last_end, stream.wait_end});
}

void Rank::pass_free(At at) {
  OpState& mine = state(at);
  const int program = run_.programs[static_cast<std::size_t>(at.step)];
  const Queues& queues =
      run_.queues[static_cast<std::size_t>(role_)][static_cast<std::size_t>(program)];
  if (++mine.passed < queues.passes[static_cast<std::size_t>(at.op)]) return;
  if (mine.freed == nullptr) return;
  if (op(at).free_rule == FreeRule::after_op && !awaited_done(at)) {
    waiting_frees_.push_back(at);
    return;
  }
  give_back(at);
}

void Rank::give_back(At at) {
  Block* block = std::exchange(state(at).freed, nullptr);
  streams_[static_cast<std::size_t>(block->pool)].reusable.push_back(block);
}

void Rank::poison_reusable(Stream& stream) {
  for (Block* block : stream.reusable) memory_.release(block);
  stream.reusable.clear();
}

void Rank::release_if_awaited_done() {
  for (std::size_t i = waiting_frees_.size(); i-- > 0;) {
    if (!awaited_done(waiting_frees_[i])) continue;
    give_back(waiting_frees_[i]);
    waiting_frees_.erase(waiting_frees_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

void Rank::finish(Stream& stream, At at, Seconds end, Seconds solo, Bound bound, At cause,
                  Seconds peer_wait) {
  OpState& mine = state(at);
  mine.done = true;
  mine.ended_at = end;
  --ahead_;
  ++stream.cursor.at;
  if (!waiting_frees_.empty()) release_if_awaited_done();
  if (record_) {
    if (bound == Bound::start) {
      const Seconds latest = ready_since(stream, at);
      if (latest == mine.issued_at) {
        bound = Bound::host;
      } else if (latest == stream.wait_end && stream.wait.op >= 0) {
        bound = Bound::wait;
        cause = stream.wait;
      } else if (stream.last.op >= 0) {
        bound = Bound::stream;
        cause = stream.last;
      }
    }
    record(at, stream.begin, end, solo, bound, cause, peer_wait);
  }
  stream.begun = false;
  stream.last = at;
  stream.last_end = end;
  stream.wait = {};
  stream.wait_end = 0;
}

void Rank::record(At at, Seconds start, Seconds end, Seconds solo, Bound bound, At cause,
                  Seconds peer_wait) {
  if (!record_) return;
  Span span;
  span.role = role_;
  span.step = at.step;
  span.op = at.op;
  span.issued = std::min(state(at).issued_at, start);
  span.start = start;
  span.end = end;
  span.solo = solo > 0 ? std::min(solo, end - start) : end - start;
  span.bound = bound;
  span.cause = cause.op;
  span.cause_step = cause.op < 0 ? 0 : cause.step;
  span.peer_wait = peer_wait;
  spans_.push_back(span);
}

void Rank::sample(At at) {
  if (record_) samples_.push_back({role_, at.step, at.op, run_.now(), memory_.allocated()});
}

}  // namespace stepcast::runtime
