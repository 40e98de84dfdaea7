// Lifetimes, unwritten reads and races of one role, by vector clocks.
//
// Two ops are ordered when a chain of queues and waits leads from one to the other. There are two
// kinds of timeline: a lane, on which the host issues, and a stream, on which ops execute. A clock
// holds, for every timeline, how many of its events are known to be over. An event e of timeline t
// with number n comes before an op exactly when the op's clock says at least n for t. An op joins
//
//   on a stream   the stream's clock, its lane's clock (it was issued), and for a collective the
//                 clock of the communicator's last collective;
//   stream_wait   the same and the clocks of the awaited ops;
//   host_wait     its lane's clock and those of the awaited ops, of a stream, or of all streams.
//
// Example, the bug that FSDP2's copy-out event prevents: unit 1 is gathered into a buffer on stream
// all_gather while compute still copies unit 0 out of it. The gather's clock knows of compute only
// what the all_gather streams have waited for; where that is less than the copy-out's number, the
// two are unordered and the gather writes what the copy-out reads.
//
// The programs run once each in order and the last one once more, so that what a step leaves behind
// meets what the next one does. Memory is checked per buffer, views resolved to what they view:
// bytes written so far, and accesses since those that a later, ordered access of the same bytes
// made redundant (who is ordered after the later one is ordered after both). A free hands the
// memory back to its pool, where a later alloc may hand it out; the users of that must be ordered
// after the old ones, unless the free's rule waited for them. The free itself need not be: a
// gradient shard of the reduce-scatter pool is freed while the optimizer reads it on another
// stream, and the next reduce-scatter waits for that.
//
// Cost: ops x (timelines + views x accesses kept), a few milliseconds for 5,000 ops.
// Tested by tests/unit/schedule/problems_order_test.cpp and its siblings, one test a sentence.

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "sim/schedule/problems_clock.hpp"
#include "sim/schedule/problems_parts.hpp"
#include "sim/schedule/same_ops.hpp"

namespace stepcast::checks {
namespace {

struct BufferState {
  bool alive = false;
  Event allocated;             // alive and not persistent
  std::optional<Event> freed;  // the last free, when not alive
  ByteSet written;
  std::vector<Access> accesses;
  std::vector<Event> issued_by_lane;                  // the last op issued that uses it, by lane
  std::vector<std::pair<Event, BufferIndex>> before;  // users of memory it may have inherited
};

class OrderCheck {
 public:
  OrderCheck(const Schedule& schedule, std::size_t role, Findings& findings)
      : s_(schedule),
        role_(role),
        program_(schedule.roles[role]),
        same_(program_.steps),
        findings_(findings),
        namer_(schedule),
        lane_count_(std::max<std::size_t>(1, schedule.lanes.size())),
        width_(lane_count_ + schedule.streams.size()),
        lanes_(lane_count_, Clock(width_, 0)),
        streams_(schedule.streams.size(), Clock(width_, 0)),
        comms_(schedule.communicators.size(), Clock(width_, 0)),
        buffers_(schedule.buffers.size()),
        pools_(std::max<std::size_t>(1, schedule.streams.size())) {
    resolve_views();
    for (std::size_t i = 0; i < buffers_.size(); ++i) {
      if (!s_.buffers[i].persistent) continue;
      buffers_[i].alive = true;  // since before the first step, with its contents
      buffers_[i].written.add(0, s_.buffers[i].bytes);
    }
    for (std::size_t i = 0; i < program_.steps.size(); ++i) turns_.push_back(i);
    if (!turns_.empty()) turns_.push_back(turns_.back());
  }

  void run() {
    for (std::size_t turn = 0; turn < turns_.size(); ++turn) {
      const std::vector<Op>& ops = program_.steps[turns_[turn]].ops;
      base_.push_back(clocks_.size());
      clocks_.resize(clocks_.size() + ops.size() * width_);
      for (std::size_t i = 0; i < ops.size() && !findings_.full(); ++i) {
        step(ops[i], {-1, 0, static_cast<std::int32_t>(turn), static_cast<OpIndex>(i)});
      }
    }
  }

 private:
  struct Place {
    BufferIndex root = -1;
    Bytes offset = 0;
  };

  void resolve_views() {
    for (std::size_t i = 0; i < s_.buffers.size(); ++i) {
      const Buffer& buffer = s_.buffers[i];
      Place place{static_cast<BufferIndex>(i), 0};
      if (buffer.view_of >= 0) {  // declared before, so resolved already
        place = places_[static_cast<std::size_t>(buffer.view_of)];
        place.offset += buffer.view_offset;
      }
      places_.push_back(place);
    }
  }

  // ---- clocks

  void step(const Op& op, Event event) {
    const auto lane = static_cast<std::size_t>(op.lane);
    Clock& host = lanes_[lane];
    const std::int32_t issue = ++host[lane];
    const bool on_stream = op.stream >= 0;
    Clock& queue = on_stream ? streams_[static_cast<std::size_t>(op.stream)] : host;
    if (on_stream) join(queue, host.data());
    for (const OpRef& ref : s_.at_refs(op.waits)) {
      const std::int32_t* awaited = clock_of(ref, event.turn);
      if (awaited != nullptr && op.kind != OpKind::free) join(queue, awaited);
    }
    if (op.kind == OpKind::host_wait) {
      for (std::size_t s = 0; s < streams_.size(); ++s) {
        const bool met =
            op.wait_target == WaitTarget::device ||
            (op.wait_target == WaitTarget::stream && s == static_cast<std::size_t>(op.wait_stream));
        if (met) join(queue, streams_[s].data());
      }
    }
    Clock* comm =
        op.kind == OpKind::collective ? &comms_[static_cast<std::size_t>(op.comm)] : nullptr;
    if (comm != nullptr) join(queue, comm->data());

    event.timeline = static_cast<std::int32_t>(
        on_stream ? lane_count_ + static_cast<std::size_t>(op.stream) : lane);
    std::int32_t& number = queue[static_cast<std::size_t>(event.timeline)];
    event.number = on_stream ? ++number : number;
    if (comm != nullptr) *comm = queue;
    std::copy(queue.begin(), queue.end(),
              clocks_.begin() + static_cast<std::ptrdiff_t>(clock_index(event.turn, event.op)));

    if (op.kind == OpKind::alloc) {
      allocate(op, event);
    } else if (op.kind == OpKind::free) {
      release(op, event);
    }
    for (const View& view : s_.at_views(op.reads)) touch(op, event, issue, view, queue, false);
    for (const View& view : s_.at_views(op.writes)) touch(op, event, issue, view, queue, true);
  }

  std::size_t clock_index(std::int32_t turn, OpIndex op) const {
    return base_[static_cast<std::size_t>(turn)] + static_cast<std::size_t>(op) * width_;
  }

  // The clock with which the awaited op ended; null where there was no such op.
  const std::int32_t* clock_of(const OpRef& ref, std::int32_t turn) {
    const std::int32_t then = turn - ref.steps_back;
    if (then < 0) return nullptr;
    const std::size_t here = turns_[static_cast<std::size_t>(turn)];
    const std::size_t there = turns_[static_cast<std::size_t>(then)];
    const OpIndex op = same_(here, there, ref.op);
    if (op < 0) return nullptr;
    return clocks_.data() + clock_index(then, op);
  }

  // ---- memory

  void touch(const Op& op, const Event& event, std::int32_t issue, const View& view,
             const Clock& clock, bool write) {
    const Place place = places_[static_cast<std::size_t>(view.buffer)];
    BufferState& state = buffers_[static_cast<std::size_t>(place.root)];
    const char* verb = write ? "writes" : "reads";
    if (!state.alive) {
      if (state.freed) {
        add(event, fmt::format("{} {} after {} has freed it", verb, shown(s_, view),
                               told(*state.freed, event)));
      } else {
        add(event, fmt::format("{} {} before it is allocated", verb, shown(s_, view)));
      }
      return;
    }
    const Clock& host = lanes_[static_cast<std::size_t>(op.lane)];
    if (state.allocated.op >= 0 && !is_before(state.allocated, host)) {
      add(event, fmt::format("{} {}, which lane {} allocates in {}: nothing orders the two lanes",
                             verb, shown(s_, view), lane_name(state.allocated.timeline),
                             told(state.allocated, event)));
    }
    note_issue(state, op, event, issue);
    check_inherited(state, event, view, clock, verb);
    const Access access{event, place.offset + view.offset, place.offset + view.offset + view.bytes,
                        write};
    if (access.begin == access.end) return;
    if (!write && !state.written.covers(access.begin, access.end)) {
      add(event, fmt::format("reads {}, which nothing has written", shown(s_, view)));
    }
    pairs_ += static_cast<std::int64_t>(state.accesses.size());
    if (pairs_ > most_pairs) {
      if (pairs_ < 2 * most_pairs) {
        add(event,
            fmt::format("is as far as races were looked for: {} pairs of accesses are too many",
                        most_pairs));
      }
      pairs_ = 2 * most_pairs;
      return;
    }
    check_races(state, access, view, clock);
    if (write) state.written.add(access.begin, access.end);
    state.accesses.push_back(access);
  }

  void note_issue(BufferState& state, const Op& op, const Event& event, std::int32_t issue) {
    state.issued_by_lane.resize(lane_count_);
    Event& last = state.issued_by_lane[static_cast<std::size_t>(op.lane)];
    last = event;
    last.timeline = op.lane;
    last.number = issue;
  }

  void check_inherited(BufferState& state, const Event& event, const View& view, const Clock& clock,
                       const char* verb) {
    for (const auto& [user, buffer] : state.before) {
      if (is_before(user, clock)) continue;
      add(event, fmt::format("{} {}, whose memory may be that of {}, freed before, while {} may "
                             "still use it: nothing orders the two",
                             verb, shown(s_, view), name(buffer), told(user, event)));
      state.before.clear();  // once is enough
      return;
    }
  }

  void check_races(BufferState& state, const Access& access, const View& view, const Clock& clock) {
    std::size_t kept = 0;
    for (const Access& earlier : state.accesses) {
      const bool apart = earlier.end <= access.begin || earlier.begin >= access.end;
      const bool ordered = is_before(earlier.event, clock);
      if (!apart && !ordered && (earlier.write || access.write)) {
        add(access.event,
            fmt::format("{} {} while {} may still {} it: nothing orders the two",
                        access.write ? "writes" : "reads", shown(s_, view),
                        told(earlier.event, access.event), earlier.write ? "write" : "read"));
      }
      const bool covered = earlier.begin >= access.begin && earlier.end <= access.end;
      const bool redundant = ordered && covered && (access.write || !earlier.write);
      if (!redundant) state.accesses[kept++] = earlier;
    }
    state.accesses.resize(kept);
  }

  void allocate(const Op& op, const Event& event) {
    BufferState& state = buffers_[static_cast<std::size_t>(op.buffer)];
    if (state.alive) {
      add(event, fmt::format("allocates {} again, which {} allocated and nothing has freed",
                             name(op.buffer), told(state.allocated, event)));
    }
    state = BufferState();
    state.alive = true;
    state.allocated = event;
    const Pool& pool = pool_of(op.buffer);
    for (const auto& user : pool.last_user) {
      if (user.first.op >= 0) state.before.push_back(user);
    }
  }

  void release(const Op& op, const Event& event) {
    BufferState& state = buffers_[static_cast<std::size_t>(op.buffer)];
    if (!state.alive) {
      add(event, state.freed ? fmt::format("frees {}, which {} has freed already", name(op.buffer),
                                           told(*state.freed, event))
                             : fmt::format("frees {} before it is allocated", name(op.buffer)));
      return;
    }
    const Clock& host = lanes_[static_cast<std::size_t>(op.lane)];
    for (const Event& user : state.issued_by_lane) {
      if (user.op < 0 || is_before(user, host)) continue;
      add(event, fmt::format("frees {}, which lane {} uses in {}: nothing orders the two lanes",
                             name(op.buffer), lane_name(user.timeline), told(user, event)));
    }
    // What is over when the memory can be handed out again on its pool.
    Clock over = host;
    if (op.free_rule == FreeRule::after_streams) {
      for (const StreamIndex stream : s_.at_streams(op.free_streams)) {
        join(over, streams_[static_cast<std::size_t>(stream)].data());
      }
    } else if (op.free_rule == FreeRule::after_op) {
      for (const OpRef& ref : s_.at_refs(op.waits)) {
        const std::int32_t* awaited = clock_of(ref, event.turn);
        if (awaited != nullptr) join(over, awaited);
      }
    }
    Pool& pool = pool_of(op.buffer);
    pool.last_user.resize(width_);
    for (const Access& access : state.accesses) {
      // What a deferred free waits for is over before anyone gets the memory. Anything else may
      // still run: whoever gets the memory next from this pool must be ordered after it.
      if (op.free_rule != FreeRule::host_order && is_before(access.event, over)) continue;
      auto& last = pool.last_user[static_cast<std::size_t>(access.event.timeline)];
      if (last.first.op < 0 || last.first.number < access.event.number) {
        last = {access.event, op.buffer};
      }
    }
    state = BufferState();
    state.freed = event;
  }

  struct Pool {
    std::vector<std::pair<Event, BufferIndex>> last_user;  // of freed memory, by timeline
  };
  Pool& pool_of(BufferIndex buffer) {
    return pools_[static_cast<std::size_t>(s_.buffers[static_cast<std::size_t>(buffer)].pool)];
  }

  // ---- words

  std::string lane_name(std::int32_t lane) const {
    return s_.lanes.empty() ? "0" : s_.lanes[static_cast<std::size_t>(lane)].name.str();
  }
  const std::string& name(BufferIndex buffer) const {
    return s_.buffers[static_cast<std::size_t>(buffer)].name.str();
  }
  // "OP", or "OP of the step before", seen from `from`.
  std::string told(const Event& event, const Event& from) {
    std::string text = namer_.name(role_, turns_[static_cast<std::size_t>(event.turn)], event.op);
    const std::int32_t back = from.turn - event.turn;
    if (back == 1) text += " of the step before";
    if (back > 1) text += fmt::format(" {} steps before", back);
    return text;
  }
  void add(const Event& event, const std::string& what) {
    const std::size_t step = turns_[static_cast<std::size_t>(event.turn)];
    findings_.add(place(s_, role_, step) + namer_.name(role_, step, event.op) + " " + what);
  }

  static constexpr std::int64_t most_pairs = 1'000'000'000;  // about two seconds

  const Schedule& s_;
  std::size_t role_;
  const Role& program_;
  SameOps same_;
  Findings& findings_;
  OpNamer namer_;
  std::size_t lane_count_;
  std::size_t width_;  // timelines: lanes, then streams
  std::vector<Clock> lanes_, streams_, comms_;
  std::vector<BufferState> buffers_;  // by buffer; views unused
  std::vector<Pool> pools_;           // by stream
  std::vector<Place> places_;         // by buffer
  std::vector<std::size_t> turns_;    // the program of every executed step
  std::vector<std::size_t> base_;     // into clocks_, by turn
  std::vector<std::int32_t> clocks_;  // every executed op's clock when it ended
  std::int64_t pairs_ = 0;            // of accesses compared
};

}  // namespace

void check_memory_order(const Schedule& schedule, std::size_t role, Findings& findings) {
  OrderCheck(schedule, role, findings).run();
}

}  // namespace stepcast::checks
