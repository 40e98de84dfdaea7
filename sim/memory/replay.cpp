#include "sim/memory/replay.hpp"

#include <algorithm>
#include <limits>
#include <map>

#include "base/error.hpp"
#include "sim/memory/retries.hpp"
#include "sim/schedule/buffers.hpp"
#include "sim/schedule/op_name.hpp"

namespace stepcast {
namespace {

constexpr Seconds never = std::numeric_limits<Seconds>::infinity();

class Replay {
 public:
  Replay(const Schedule& schedule, const Timeline& timeline, int role, const ReplayOptions& options)
      : s_(schedule),
        t_(timeline),
        role_index_(role),
        role_(schedule.roles[static_cast<std::size_t>(role)]),
        record_(options.record),
        allocator_(options.allocator, options.record),
        block_of_(schedule.buffers.size(), -1),
        tails_(schedule.streams.size(), 0.0) {
    result_.role = role_.name;
    result_.ranks = role_.rank_count;
  }

  RoleReplay run() {
    hold_persistent();
    for (std::size_t step = 0; step < t_.steps.size() && result_.out_of_memory.empty(); ++step) {
      run_step(static_cast<std::int32_t>(step));
    }
    finish();
    return std::move(result_);
  }

 private:
  void hold_persistent() {
    const std::vector<bool> held = persistent_of_role(s_, role_index_);
    for (std::size_t b = 0; b < held.size() && result_.out_of_memory.empty(); ++b) {
      if (held[b]) allocate(static_cast<BufferIndex>(b), -1, -1);
    }
    result_.event_samples.assign(allocator_.events().size(), -1);
  }

  void run_step(std::int32_t step) {
    const std::vector<Op>& ops = ops_of(step);
    result_.retries = 0;
    result_.retry_wait = 0;
    result_.stalls.clear();
    ends_.emplace_back(ops.size(), 0.0);
    skip_to(step);
    for (std::size_t i = 0; i < ops.size(); ++i) {
      const Op& op = ops[i];
      const auto index = static_cast<OpIndex>(i);
      if (span_ < t_.spans.size() && is(t_.spans[span_], step, index)) {
        const Seconds end = t_.spans[span_++].end;
        ends_.back()[i] = end;
        if (is_of_retry(op)) asked_ = std::min(asked_, t_.spans[span_ - 1].start);
        if (op.stream >= 0) tail(op.stream) = end;
      } else if (op.kind == OpKind::stream_wait) {
        for (const OpRef& ref : s_.at_refs(op.waits)) {
          tail(op.stream) = std::max(tail(op.stream), end_of(step, ref));
        }
        ends_.back()[i] = tail(op.stream);
      } else if (op.kind == OpKind::alloc || op.kind == OpKind::free) {
        move_clock(step, index);
        if (op.kind == OpKind::alloc) {
          const Seconds after_wait = now_;  // of a retry that is part of the schedule
          now_ = std::max(last_, std::min(now_, asked_));
          allocate(op.buffer, step, index);
          now_ = std::max(now_, after_wait);
        } else {
          free(op, step);
        }
        last_ = now_;
        asked_ = never;
        sample(step, index);
        if (!result_.out_of_memory.empty()) return;
      }
    }
  }

  // Spans are ordered by step, role, op; samples of a role by step, op.
  void skip_to(std::int32_t step) {
    const auto before = [&](const Span& span) {
      return span.step < step || (span.step == step && span.role < role_index_);
    };
    while (span_ < t_.spans.size() && before(t_.spans[span_])) ++span_;
  }
  bool is(const Span& span, std::int32_t step, OpIndex op) const {
    return span.step == step && span.role == role_index_ && span.op == op;
  }

  void move_clock(std::int32_t step, OpIndex op) {
    const std::vector<MemorySample>& samples = t_.memory;
    while (sample_ < samples.size() &&
           (samples[sample_].role != role_index_ || samples[sample_].step != step ||
            samples[sample_].op != op)) {
      ++sample_;
    }
    STEPCAST_ASSERT(sample_ < samples.size(), "a timeline without memory samples of its allocs");
    // Lanes of one role are walked in program order; a retry has held the host up.
    now_ = std::max(now_, samples[sample_].time);
  }

  const std::vector<Op>& ops_of(std::int32_t step) const {
    return role_.steps[static_cast<std::size_t>(program_of(step))].ops;
  }
  int program_of(std::int32_t step) const {
    return t_.steps[static_cast<std::size_t>(step)].program_index;
  }
  Seconds& tail(StreamIndex stream) { return tails_[static_cast<std::size_t>(stream)]; }

  // When what `ref` means is done; 0 where there is no such op.
  Seconds end_of(std::int32_t step, const OpRef& ref) {
    const std::int32_t back = step - ref.steps_back;
    if (back < 0) return 0;
    OpIndex op = ref.op;
    const int from = program_of(step);
    const int to = program_of(back);
    if (from != to) {
      auto same = same_.find({from, to});
      if (same == same_.end()) {
        same = same_
                   .emplace(std::make_pair(from, to),
                            SameOp(role_.steps[at(from)], role_.steps[at(to)]))
                   .first;
      }
      op = same->second(op);
    }
    return op < 0 ? 0 : ends_[at(back)][at(op)];
  }
  static std::size_t at(int index) { return static_cast<std::size_t>(index); }

  void allocate(BufferIndex buffer, std::int32_t step, OpIndex op) {
    const Buffer& what = s_.buffers[at(buffer)];
    if (what.view_of >= 0 || what.bytes == 0) return;
    const int calls_before = allocator_.driver_calls();
    const CachingAllocator::Outcome outcome =
        allocator_.allocate(what.bytes, what.pool, now_, buffer);
    drop_completed();
    const int calls = allocator_.driver_calls() - calls_before;
    if (calls > 0 && op >= 0) result_.stalls.push_back({op, outcome.retried, calls});
    if (outcome.retried) {
      const Seconds idle = std::max(now_, *std::max_element(tails_.begin(), tails_.end()));
      ++result_.retries;
      result_.retry_wait += idle - now_;
      now_ = idle;
    }
    if (outcome.block < 0) {
      OutOfMemory& out = result_.out_of_memory.emplace_back();
      out.at = moment(step, op);
      out.buffer = what.name;
      out.kind = what.kind;
      out.requested = what.bytes;
      out.pool = s_.streams[at(what.pool)].name.str();
      return;
    }
    block_of_[at(buffer)] = outcome.block;
    kind(what.kind) += what.bytes;
    take_peaks(step, op);
  }

  void free(const Op& op, std::int32_t step) {
    const Buffer& what = s_.buffers[at(op.buffer)];
    std::int32_t& block = block_of_[at(op.buffer)];
    if (block < 0) return;  // a view, or of no bytes
    Seconds reusable = 0;
    for (const StreamIndex stream : s_.at_streams(op.free_streams)) {
      reusable = std::max(reusable, tail(stream));
    }
    if (op.free_rule == FreeRule::after_op) {
      for (const OpRef& ref : s_.at_refs(op.waits)) {
        reusable = std::max(reusable, end_of(step, ref));
      }
    }
    const bool recorded = op.free_rule != FreeRule::host_order;
    allocator_.free(block, now_, recorded, reusable);
    if (recorded) {
      waiting_.push_back({op.buffer, block, reusable});
    } else {
      kind(what.kind) -= what.bytes;
    }
    block = -1;
  }

  struct Waiting {
    BufferIndex buffer = -1;
    std::int32_t block = -1;
    Seconds reusable = 0;
  };
  // Of what the allocator has taken back the kinds hold it no longer.
  void drop_completed() {
    if (waiting_.empty()) return;
    const bool all = allocator_.waiting() == 0;
    const auto gone = [&](const Waiting& w) {
      if (!all && w.reusable > now_) return false;
      kind(s_.buffers[at(w.buffer)].kind) -= s_.buffers[at(w.buffer)].bytes;
      return true;
    };
    waiting_.erase(std::remove_if(waiting_.begin(), waiting_.end(), gone), waiting_.end());
  }

  Bytes& kind(BufferKind kind) { return by_kind_[static_cast<std::size_t>(kind)]; }

  void take_peaks(std::int32_t step, OpIndex op) {
    result_.peak_allocated = std::max(result_.peak_allocated, allocator_.allocated());
    result_.peak_active = std::max(result_.peak_active, allocator_.active());
    if (allocator_.reserved() <= result_.peak_reserved) return;
    result_.peak_reserved = allocator_.reserved();
    result_.at_peak = moment(step, op);
  }

  ReservedMoment moment(std::int32_t step, OpIndex op) const {
    ReservedMoment moment;
    moment.step = step;
    moment.op = op;
    moment.time = now_;
    moment.allocated = allocator_.allocated();
    moment.waiting = allocator_.waiting();
    moment.cached = allocator_.reserved() - allocator_.active();
    moment.by_kind = by_kind_;
    return moment;
  }

  void sample(std::int32_t step, OpIndex op) {
    mark_events();
    result_.samples.push_back(
        {step, op, now_, allocator_.allocated(), allocator_.active(), allocator_.reserved()});
  }
  // Events since the last sample belong to the one that is about to be made.
  void mark_events() {
    if (!record_) return;
    result_.event_samples.resize(allocator_.events().size(),
                                 static_cast<std::int32_t>(result_.samples.size()));
  }

  void finish() {
    for (std::size_t s = 0; s < s_.streams.size(); ++s) {
      result_.reserved_by_stream.push_back(allocator_.reserved(static_cast<StreamIndex>(s)));
    }
    name(result_.at_peak);
    for (OutOfMemory& out : result_.out_of_memory) name(out.at);
    if (!record_) return;
    result_.events = allocator_.events();
    result_.blocks = allocator_.blocks();
    result_.segments = allocator_.segments();
    result_.event_samples.resize(result_.events.size(), -1);
  }

  void name(ReservedMoment& moment) const {
    if (moment.step < 0 || moment.op < 0) return;
    const StepProgram& step = role_.steps[at(program_of(moment.step))];
    moment.op_name = op_name(s_, step, moment.op);
  }

  const Schedule& s_;
  const Timeline& t_;
  int role_index_;
  const Role& role_;
  bool record_;
  CachingAllocator allocator_;
  std::vector<std::int32_t> block_of_;  // by buffer
  std::vector<Seconds> tails_;          // by stream: the end of what it has been given
  std::vector<std::vector<Seconds>> ends_;
  std::map<std::pair<int, int>, SameOp> same_;
  std::vector<Waiting> waiting_;
  KindBytes by_kind_{};
  std::size_t span_ = 0, sample_ = 0;
  Seconds now_ = 0;
  Seconds last_ = 0;       // of the last alloc or free
  Seconds asked_ = never;  // when the host asked for the next alloc, before the retry that it has
  RoleReplay result_;
};

}  // namespace

RoleReplay replay_memory(const Schedule& schedule, const Timeline& timeline, int role,
                         const ReplayOptions& options) {
  return Replay(schedule, timeline, role, options).run();
}

std::vector<RoleReplay> replay_memory(const Schedule& schedule, const Timeline& timeline,
                                      const ReplayOptions& options) {
  std::vector<RoleReplay> replays;
  for (std::size_t role = 0; role < schedule.roles.size(); ++role) {
    replays.push_back(replay_memory(schedule, timeline, static_cast<int>(role), options));
  }
  return replays;
}

}  // namespace stepcast
