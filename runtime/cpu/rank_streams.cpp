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
      if (const auto awaited = resolve(at.step, ref)) stream.wait = *awaited;
    }
    stream.wait_end = run_.now();
    ++stream.cursor.at;
    return true;
  }
  if (o.kind == OpKind::collective) return advance_collective(stream, at);
  if (!stream.timed) {
    poison_reusable(stream);
    stream.begin = run_.now();
    run_.work.run(context(at));
    const Seconds takes = run_.work.duration(context(at));
    stream.until = stream.begin + takes;
    stream.timed = takes > 0;
    if (stream.timed) return true;
  }
  if (stream.timed && run_.now() < stream.until) return false;
  stream.timed = false;
  finish(stream, at, stream.begin, stream.until - stream.begin, Bound::start, {});
  return true;
}

// Entered, first half, second half, and (replay) the time that it takes.
bool Rank::advance_collective(Stream& stream, At at) {
  const Op& o = op(at);
  const auto c = static_cast<std::size_t>(o.comm);
  Comm& comm = comms_[c];
  const At turn = head(comm.cursor, &Queues::communicators, c);
  if (turn.step != at.step || turn.op != at.op) return false;  // another stream's is before it
  const bool real = run_.work.has_memory();
  if (!stream.meeting) {
    poison_reusable(stream);
    const Operands operands = real ? run_.work.operands(context(at)) : Operands{};
    stream.entered = run_.now();
    stream.meeting = run_.hall.enter(
        o.comm, rank_, comm.entered++, {o.collective, o.reduction, o.dtype, o.elements, o.root},
        operands, {role_, at.step, run_.programs[static_cast<std::size_t>(at.step)], at.op});
    stream.first_done = stream.second_done = false;
    return true;
  }
  Meeting& meeting = *stream.meeting;
  const int me = run_.hall.index_of(o.comm, rank_);
  if (!stream.first_done) {
    if (meeting.stage() == Meeting::Stage::gathering) return false;
    stream.begin = run_.now();
    if (meeting.stage() == Meeting::Stage::over) {
      stream.first_done = stream.second_done = true;
      stream.until = stream.begin + run_.work.duration(context(at));
      stream.timed = true;
      return true;
    }
    if (real) first_half(meeting.what(), meeting.all(), me);
    stream.first_done = true;
    run_.hall.finish_half(meeting, o.comm, rank_);
    return true;
  }
  if (!stream.second_done) {
    if (meeting.stage() == Meeting::Stage::first) return false;
    if (real) second_half(meeting.what(), meeting.all(), me);
    stream.second_done = true;
    run_.hall.finish_half(meeting, o.comm, rank_);
    stream.until = stream.begin + run_.work.duration(context(at));
    stream.timed = true;
    return true;
  }
  if (meeting.stage() != Meeting::Stage::over || run_.now() < stream.until) return false;
  stream.timed = false;
  stream.meeting.reset();
  if (real) run_.work.finished(context(at));
  ++comm.cursor.at;
  const At before = std::exchange(comm.last, at);
  const Seconds comm_end = std::exchange(comm.last_end, run_.now());
  const bool queued = before.op >= 0 && comm_end >= stream.last_end &&
                      comm_end >= stream.wait_end && comm_end >= state(at).issued_at;
  finish(stream, at, stream.begin, stream.until - stream.begin,
         queued ? Bound::communicator : Bound::start, queued ? before : At{},
         stream.begin - stream.entered);
  return true;
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

void Rank::finish(Stream& stream, At at, Seconds start, Seconds solo, Bound bound, At cause,
                  Seconds peer_wait) {
  OpState& mine = state(at);
  mine.done = true;
  --ahead_;
  ++stream.cursor.at;
  if (!waiting_frees_.empty()) release_if_awaited_done();
  if (record_) {
    if (bound == Bound::start) {
      const Seconds latest = std::max({mine.issued_at, stream.last_end, stream.wait_end});
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
    record(at, start, run_.now(), solo, bound, cause, peer_wait);
  }
  stream.last = at;
  stream.last_end = run_.now();
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
