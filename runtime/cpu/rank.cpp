#include "runtime/cpu/rank.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace stepcast::runtime {
namespace {

constexpr int launch_queue = 1024;  // ops a lane may be ahead of the streams

}  // namespace

Rank::Rank(const Run& run, int rank, int role, std::uint64_t seed, bool record)
    : run_(run),
      rank_(rank),
      role_(role),
      record_(record),
      random_(seed * 1000003 + static_cast<std::uint64_t>(rank)),
      real_(run.work.has_memory()),
      moves_(run.work.moves()),
      memory_(run.schedule, role, real_),
      steps_(run.programs.size()),
      lanes_(run.schedule.lanes.size()),
      streams_(run.schedule.streams.size()),
      comms_(run.schedule.communicators.size()),
      locks_(run.schedule),
      locked_(locks_.count, false),
      same_(run.schedule.roles[static_cast<std::size_t>(role)].steps) {
  preference_.resize(lanes_.size() + streams_.size());
  std::iota(preference_.begin(), preference_.end(), std::size_t{0});
}

void Rank::start() {
  std::vector<std::byte*> buffers(run_.schedule.buffers.size());
  for (std::size_t b = 0; b < buffers.size(); ++b) {
    buffers[b] = memory_.at(static_cast<BufferIndex>(b));
  }
  run_.work.start(rank_, buffers.data());
}

void Rank::end() {
  std::vector<std::byte*> buffers(run_.schedule.buffers.size());
  for (std::size_t b = 0; b < buffers.size(); ++b) {
    buffers[b] = memory_.at(static_cast<BufferIndex>(b));
  }
  run_.work.end(rank_, buffers.data());
}

// ---- Places in the run --------------------------------------------------------------------------

const Op& Rank::op(At at) const {
  const int program = run_.programs[static_cast<std::size_t>(at.step)];
  return run_.schedule.roles[static_cast<std::size_t>(role_)]
      .steps[static_cast<std::size_t>(program)]
      .ops[static_cast<std::size_t>(at.op)];
}

Rank::StepState& Rank::state(int step) {
  StepState& state = steps_[static_cast<std::size_t>(step)];
  if (state.ops.empty()) {
    const int program = run_.programs[static_cast<std::size_t>(step)];
    const Queues& queues =
        run_.queues[static_cast<std::size_t>(role_)][static_cast<std::size_t>(program)];
    state.ops.resize(queues.first_view.size());
    state.views.resize(static_cast<std::size_t>(queues.views), nullptr);
  }
  return state;
}

// When the last of what it waits for ended.
Seconds Rank::awaited_end(At at) {
  const Op& o = op(at);
  Seconds end = 0;
  if (o.kind == OpKind::host_wait && o.wait_target != WaitTarget::ops) {
    for (std::size_t s = 0; s < streams_.size(); ++s) {
      if (o.wait_target == WaitTarget::stream && static_cast<StreamIndex>(s) != o.wait_stream) {
        continue;
      }
      end = std::max(end, streams_[s].last_end);
    }
    return end;
  }
  for (const OpRef ref : run_.schedule.at_refs(o.waits)) {
    if (const auto awaited = resolve(at.step, ref)) end = std::max(end, state(*awaited).ended_at);
  }
  return end;
}

Rank::At Rank::head(Cursor& cursor, std::vector<std::vector<OpIndex>> Queues::*lists,
                    std::size_t which) {
  for (; cursor.step < static_cast<int>(run_.programs.size()); ++cursor.step, cursor.at = 0) {
    const int program = run_.programs[static_cast<std::size_t>(cursor.step)];
    const Queues& queues =
        run_.queues[static_cast<std::size_t>(role_)][static_cast<std::size_t>(program)];
    const std::vector<OpIndex>& list = (queues.*lists)[which];
    if (cursor.at < list.size()) return {cursor.step, list[cursor.at]};
  }
  return {};
}

std::optional<Rank::At> Rank::resolve(int step, OpRef ref) {
  const int earlier = step - ref.steps_back;
  if (earlier < 0 || ref.op < 0) return std::nullopt;
  const int here = run_.programs[static_cast<std::size_t>(step)];
  const int there = run_.programs[static_cast<std::size_t>(earlier)];
  const OpIndex op = same_(static_cast<std::size_t>(here), static_cast<std::size_t>(there), ref.op);
  if (op < 0) return std::nullopt;
  return At{earlier, op};
}

bool Rank::awaited_done(At at) {
  for (const OpRef ref : run_.schedule.at_refs(op(at).waits)) {
    const auto awaited = resolve(at.step, ref);
    if (awaited && !state(*awaited).done) return false;
  }
  return true;
}

// Everything that was issued to the stream before `upto` is done.
bool Rank::drained(At upto, StreamIndex stream) {
  const auto s = static_cast<std::size_t>(stream);
  const At next = head(streams_[s].cursor, &Queues::streams, s);
  if (next.op < 0 || next.step != upto.step) return next.op < 0 || next.step > upto.step;
  return next.op > upto.op;
}

OpContext Rank::context(At at) {
  const int program = run_.programs[static_cast<std::size_t>(at.step)];
  const Queues& queues =
      run_.queues[static_cast<std::size_t>(role_)][static_cast<std::size_t>(program)];
  return {rank_,
          role_,
          at.step,
          program,
          at.op,
          &op(at),
          state(at.step).views.data() + queues.first_view[static_cast<std::size_t>(at.op)]};
}

// ---- Going on -----------------------------------------------------------------------------------

bool Rank::advance() {
  if (--until_redraw_ < 0) {
    std::shuffle(preference_.begin(), preference_.end(), random_);
    until_redraw_ = 16 + static_cast<int>(random_() % 48);
  }
  for (const std::size_t queue : preference_) {
    const bool went =
        queue < lanes_.size() ? advance_lane(queue) : advance_stream(queue - lanes_.size());
    if (went) return true;
  }
  return false;
}

bool Rank::done() const {
  const auto ended = [&](const Cursor& cursor) {
    return cursor.step >= static_cast<int>(run_.programs.size());
  };
  return std::all_of(lanes_.begin(), lanes_.end(),
                     [&](const Lane& l) { return ended(l.cursor); }) &&
         std::all_of(streams_.begin(), streams_.end(),
                     [&](const Stream& s) { return ended(s.cursor); });
}

std::optional<Seconds> Rank::next_end(Seconds time) const {
  std::optional<Seconds> next;
  const auto offer = [&](Seconds until) {
    if (until > time) next = std::min(next.value_or(until), until);
  };
  for (const Lane& lane : lanes_) {
    if (lane.begun) offer(lane.until);
  }
  for (const Stream& stream : streams_) {
    if (stream.begun) offer(stream.until);
  }
  return next;
}

void Rank::say_where_it_stands() const {
  Rank& self = const_cast<Rank&>(*this);  // head() only moves cursors past ends of lists
  At at;
  for (std::size_t l = 0; l < lanes_.size() && at.op < 0; ++l) {
    at = self.head(self.lanes_[l].cursor, &Queues::lanes, l);
  }
  for (std::size_t s = 0; s < streams_.size() && at.op < 0; ++s) {
    at = self.head(self.streams_[s].cursor, &Queues::streams, s);
  }
  const int program = at.op < 0 ? 0 : run_.programs[static_cast<std::size_t>(at.step)];
  run_.transport.stand(rank_, {role_, at.step, program, at.op});
}

// ---- Lanes --------------------------------------------------------------------------------------

bool Rank::advance_lane(std::size_t which) {
  Lane& lane = lanes_[which];
  const At at = head(lane.cursor, &Queues::lanes, which);
  if (at.op < 0) return false;
  const Op& now_op = op(at);
  const bool locks = locks_.takes(which, now_op);
  const auto lock = static_cast<std::size_t>(std::max(locks_.of_lane[which], 0));
  if (!lane.begun) {
    if ((runs_on_stream(now_op) && ahead_ >= launch_queue) || (locks && locked_[lock])) {
      lane.held = true;
      return false;
    }
    lane.begin = std::exchange(lane.held, false) || real_ ? run_.now() : lane.until;
    const OpContext c = context(at);
    if (now_op.kind == OpKind::storage) {
      bind(at);
      run_.work.run(context(at));
      lane.until = lane.begin + run_.work.duration(c);
    } else {
      lane.until = lane.begin + run_.work.host_duration(c);
    }
    lane.begun = true;
    if (lane.until > lane.begin) {
      if (locks) locked_[lock] = true;
      return true;
    }
  }
  if (lane.until > lane.begin && run_.now() < lane.until) return false;
  if (!may_go_on(lane, at)) return false;
  if (locks && lane.until > lane.begin) locked_[lock] = false;
  const Seconds takes = lane.until - lane.begin;
  const bool waited = now_op.kind == OpKind::host_wait;
  if (waited) lane.until = std::max(lane.until, awaited_end(at));
  if (real_) lane.until = std::max(lane.until, run_.now());
  issue(at, lane.until);
  lane.begun = false;
  ++lane.cursor.at;
  if (now_op.kind == OpKind::host_work || now_op.kind == OpKind::host_wait ||
      now_op.kind == OpKind::storage) {
    state(at).issued_at = lane.begin;
    state(at).ended_at = lane.until;
    record(at, lane.begin, lane.until, takes, waited ? Bound::wait : Bound::host, {});
  }
  return true;
}

bool Rank::may_go_on(const Lane&, At at) {
  const Op& o = op(at);
  if (o.kind != OpKind::host_wait) return true;
  switch (o.wait_target) {
    case WaitTarget::ops: return awaited_done(at);
    case WaitTarget::stream: return drained(at, o.wait_stream);
    case WaitTarget::device:
      for (std::size_t s = 0; s < streams_.size(); ++s) {
        if (!drained(at, static_cast<StreamIndex>(s))) return false;
      }
      return true;
  }
  return true;
}

void Rank::bind(At at) {
  const Op& o = op(at);
  const OpContext c = context(at);
  auto* views = const_cast<std::byte**>(c.memory);
  std::int32_t next = 0;
  for (const Range range : {o.reads, o.writes}) {
    for (const View& view : run_.schedule.at_views(range)) {
      std::byte* start = memory_.at(view.buffer);
      if (start == nullptr && real_) {
        const StepProgram& program = run_.schedule.roles[static_cast<std::size_t>(role_)]
                                         .steps[static_cast<std::size_t>(c.program)];
        throw std::runtime_error(
            op_names(run_.schedule, program)[static_cast<std::size_t>(at.op)] + " uses buffer " +
            run_.schedule.buffers[static_cast<std::size_t>(view.buffer)].name.str() +
            ", which is not allocated");
      }
      views[next++] = start;
    }
  }
}

void Rank::issue(At at, Seconds when) {
  const Op& o = op(at);
  OpState& mine = state(at);
  mine.issued = true;
  mine.issued_at = when;
  switch (o.kind) {
    case OpKind::alloc:
      memory_.alloc(o.buffer);
      sample(at);
      mine.done = true;
      break;
    case OpKind::free:
      mine.freed = memory_.free(o.buffer);
      sample(at);
      mine.done = true;
      break;
    case OpKind::compute:
    case OpKind::collective:
    case OpKind::copy:
      bind(at);
      ++ahead_;
      break;
    case OpKind::stream_wait: break;
    case OpKind::host_work:
    case OpKind::host_wait:
    case OpKind::storage: mine.done = true; break;
  }
}

}  // namespace stepcast::runtime
