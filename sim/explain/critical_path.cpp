#include "sim/explain/critical_path.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "sim/report/span_index.hpp"

namespace stepcast {
namespace {

class Walk {
 public:
  Walk(const Schedule& schedule, const CostTable& costs, const Timeline& timeline)
      : schedule_(schedule),
        costs_(costs),
        timeline_(timeline),
        index_(schedule, timeline, 0),
        begin_(timeline.steps.back().end - timeline.period()),
        names_(op_names(schedule, index_.program(index_.last_step()))) {
    if (index_.last_step() > 0) {
      earlier_names_ = op_names(schedule, index_.program(index_.last_step() - 1));
    }
  }

  CriticalPath run() {
    path_.period = timeline_.period();
    const Span* at = index_.last_to_end();
    Seconds t = timeline_.steps.back().end;
    while (t > begin_ && at != nullptr) {
      add(*at, std::max(begin_, std::min(at->start, t)), t);
      t = std::min(at->start, t);
      if (t <= begin_) break;
      at = before(*at, t);
    }
    if (t > begin_) {
      PathPart& part = path_.parts.emplace_back();
      part.kind = PathKind::start;
      part.end = t - begin_;
    }
    std::reverse(path_.parts.begin(), path_.parts.end());
    return std::move(path_);
  }

 private:
  std::string name(std::int32_t step, OpIndex op) const {
    const auto at = static_cast<std::size_t>(op);
    if (step == index_.last_step()) return names_[at];
    return step == index_.last_step() - 1 ? "previous step's " + earlier_names_[at] : "";
  }

  PathKind kind_of(const Op& op) const {
    if (op.kind == OpKind::collective) return PathKind::collective;
    if (op.stream < 0) return op.phase == Phase::load ? PathKind::loader : PathKind::host;
    if (op.phase == Phase::optimizer) return PathKind::optimizer;
    return is_model_work(op) ? PathKind::compute : PathKind::copies;
  }

  void add(const Span& span, Seconds from, Seconds to) {
    if (to <= from) return;
    const Op& op = index_.op(span);
    // A host_wait takes time only because of what it waits for: that comes next.
    PathPart& part = path_.parts.emplace_back();
    part.kind = kind_of(op);
    part.op = name(span.step, span.op);
    part.stream =
        op.stream < 0 ? "host" : schedule_.streams[static_cast<std::size_t>(op.stream)].name.str();
    part.collective = op.collective;
    part.start = from - begin_;
    part.end = to - begin_;
    if (op.kind != OpKind::host_wait) {
      part.interference = std::clamp(span.end - span.start - span.solo, 0.0, to - from);
    }
    part.bound = span.bound;
    if ((span.bound == Bound::wait || span.bound == Bound::communicator) && span.cause >= 0) {
      part.bound_by = name(span.cause_step, span.cause);
    }
  }

  void add_host(const Span& issued, Seconds from, Seconds to, PathKind kind) {
    if (to <= from) return;
    PathPart& part = path_.parts.emplace_back();
    part.kind = kind;
    part.op = name(issued.step, issued.op);
    part.stream = "host";
    part.start = from - begin_;
    part.end = to - begin_;
    part.bound = Bound::host;
  }

  // The last span before `at` in its lane's order that blocked the lane.
  const Span* blocked_before(const Span& at) const {
    const LaneIndex lane = index_.op(at).lane;
    OpIndex from = at.op;
    for (std::int32_t step = at.step; step >= std::max(0, index_.last_step() - 1); --step) {
      const std::vector<Op>& ops = index_.program(step).ops;
      if (step != at.step) from = static_cast<OpIndex>(ops.size());
      while (from-- > 0) {
        const Op& op = ops[static_cast<std::size_t>(from)];
        if (op.lane != lane) continue;
        if (op.kind != OpKind::host_wait && op.kind != OpKind::storage) continue;
        const Span* span = index_.find(step, from);
        if (span == nullptr || span->end <= span->start) continue;
        if (op.kind == OpKind::storage || span->bound == Bound::wait) return span;
      }
    }
    return nullptr;
  }

  // What held `at` until t; host time is booked on the way and moves t.
  const Span* before(const Span& at, Seconds& t) {
    if (at.peer_wait > 0) {
      PathPart& part = path_.parts.emplace_back();
      part.kind = PathKind::peer;
      part.op = name(at.step, at.op);
      part.stream = "peers";
      const Seconds from = std::max(begin_, t - at.peer_wait);
      part.start = from - begin_;
      part.end = t - begin_;
      part.bound = Bound::peer;
      t = from;
      if (t <= begin_) return nullptr;
    }
    switch (at.bound) {
      case Bound::stream: return index_.before_on_stream(at);
      case Bound::wait:
      case Bound::communicator: return index_.find(at.cause_step, at.cause);
      case Bound::host: {
        const Span* wait = blocked_before(at);
        const Seconds since = wait == nullptr ? begin_ : std::clamp(wait->end, begin_, t);
        add_host(at, since, t, PathKind::host);
        t = since;
        if (wait == nullptr || t <= begin_) return nullptr;
        if (index_.op(*wait).kind == OpKind::storage) return wait;
        if (index_.op(*wait).phase == Phase::load) {
          const Seconds from = std::max(begin_, std::min(wait->start, t));
          add_host(*wait, from, t, PathKind::loader);
          t = from;
          return t <= begin_ ? nullptr : wait_start(*wait, t);
        }
        return index_.find(wait->cause_step, wait->cause);
      }
      case Bound::peer: return index_.before_on_stream(at);
      case Bound::start: return nullptr;
    }
    return nullptr;
  }

  // The lane came to a wait for its loader only then: because it was busy, or blocked before.
  const Span* wait_start(const Span& wait, Seconds& t) {
    const Span* earlier = blocked_before(wait);
    const Seconds since = earlier == nullptr ? begin_ : std::clamp(earlier->end, begin_, t);
    add_host(wait, since, t, PathKind::host);
    t = since;
    if (earlier == nullptr || t <= begin_) return nullptr;
    return index_.op(*earlier).kind == OpKind::storage
               ? earlier
               : index_.find(earlier->cause_step, earlier->cause);
  }

  const Schedule& schedule_;
  const CostTable& costs_;
  const Timeline& timeline_;
  SpanIndex index_;
  Seconds begin_;
  std::vector<std::string> names_, earlier_names_;
  CriticalPath path_;
};

}  // namespace

std::string_view to_string(PathKind kind) {
  constexpr std::string_view names[] = {"compute", "copies", "optimizer", "collective",
                                        "host",    "loader", "peers",     "start"};
  return names[static_cast<std::size_t>(kind)];
}

Seconds CriticalPath::of(PathKind kind) const {
  Seconds sum = 0;
  for (const PathPart& part : parts) {
    if (part.kind == kind) sum += part.end - part.start;
  }
  return sum;
}

CriticalPath critical_path(const Schedule& schedule, const CostTable& costs,
                           const Timeline& timeline) {
  STEPCAST_ASSERT(!timeline.steps.empty() && !schedule.roles.empty(), "a timeline has steps");
  return Walk(schedule, costs, timeline).run();
}

std::vector<PathRun> runs_of(const CriticalPath& path, Seconds least) {
  std::vector<PathRun> runs;
  for (const PathPart& part : path.parts) {
    const Seconds seconds = part.end - part.start;
    const bool joins =
        !runs.empty() &&
        ((runs.back().first.kind == part.kind && runs.back().first.stream == part.stream) ||
         seconds < least);
    if (!joins) {
      runs.push_back({part, part, 1, seconds, part.interference, {{part.stream, seconds}}});
      continue;
    }
    PathRun& run = runs.back();
    run.last = part;
    run.of[part.stream] += seconds;
    ++run.ops;
    run.seconds += seconds;
    run.interference += part.interference;
  }
  return runs;
}

}  // namespace stepcast
