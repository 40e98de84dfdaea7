#include <algorithm>
#include <numeric>

#include "base/error.hpp"
#include "sim/report/span_index.hpp"
#include "sim/report/summary.hpp"

namespace stepcast {

namespace {

class Splitter {
 public:
  Splitter(const Schedule& schedule, const CostTable& costs, const Timeline& timeline,
           Provenance host)
      : costs_(costs), timeline_(timeline), host_(host), index_(schedule, timeline, 0) {
    const auto last = static_cast<std::int32_t>(timeline.steps.size()) - 1;
    begin_ = timeline.steps.back().end - timeline.period();
    end_ = timeline.steps.back().end;
    const StepProgram& program = index_.program(last);
    stream_ = compute_stream(schedule, program);
    for (std::int32_t step = std::max(0, last - 1); step < last; ++step) {
      const std::vector<Op>& ops = index_.program(step).ops;
      for (std::size_t i = 0; i < ops.size(); ++i) {
        find_waits(ops[i], step, static_cast<OpIndex>(i));
      }
    }
    for (std::size_t i = 0; i < program.ops.size(); ++i) {
      find_waits(program.ops[i], last, static_cast<OpIndex>(i));
      if (!is_model_work(program.ops[i])) continue;
      if (first_work_ < 0) first_work_ = static_cast<OpIndex>(i);
      last_work_ = static_cast<OpIndex>(i);
    }
  }

  TimeSplit run() {
    Seconds cursor = begin_;
    for (const Span* span : index_.on_stream(stream_)) {
      if (span->end <= begin_) continue;
      if (span->start > cursor) book_gap(cursor, span->start, *span);
      book_busy(*span, std::max(cursor, span->start));
      cursor = std::max(cursor, span->end);
    }
    if (cursor < end_) book_tail(cursor);
    std::sort(split_.exposed.begin(), split_.exposed.end(),
              [](const ExposedPart& a, const ExposedPart& b) {
                return a.seconds != b.seconds ? a.seconds > b.seconds : a.cause < b.cause;
              });
    return std::move(split_);
  }

 private:
  const OpCost& cost(const Span& span) const {
    const int program = timeline_.steps[static_cast<std::size_t>(span.step)].program_index;
    return costs_.cost(span.role, program, span.op);
  }
  // A host_wait has no cost of its own.
  Provenance provenance(const Span& span) const {
    return index_.op(span).kind == OpKind::host_wait ? host_ : cost(span).provenance;
  }
  Seconds host_of(const Span& span) const { return cost(span).host; }

  void add(Seconds& bucket, Seconds seconds, Provenance provenance) {
    bucket += seconds;
    split_.by_provenance[static_cast<std::size_t>(provenance)] += seconds;
  }

  void add_rates(const SecondsByRate& bound, Seconds solo) {
    const Seconds all = std::accumulate(bound.begin(), bound.end(), 0.0);
    if (all <= 0) return;
    for (std::size_t i = 0; i < bound.size(); ++i) split_.by_rate[i] += solo * bound[i] / all;
  }

  void book_busy(const Span& span, Seconds from) {
    const Op& op = index_.op(span);
    const Seconds length = span.end - from;
    const Seconds solo = std::min(span.solo, length);
    // `issued` is the first launch; a launch-bound op ends when its last kernel, issued at the last
    // one, has run.
    const int launches = std::max(1, op.launches);
    const Seconds last_launch =
        span.issued + host_of(span) * (launches - 1) / static_cast<double>(launches);
    const Seconds late = std::clamp(last_launch + span.solo / launches - (span.start + span.solo),
                                    0.0, length - solo);
    const Provenance p = provenance(span);
    if (op.kind == OpKind::collective) {
      // On the compute stream itself (ZeRO's step, and all of ZeRO-1 and 2 without overlap_comm).
      expose((op.phase == Phase::optimizer ? "step_" : "unhidden_") +
                 std::string(to_string(op.collective)),
             solo, p);
    } else {
      add(op.phase == Phase::optimizer ? split_.optimizer
          : is_model_work(op)          ? split_.compute
                                       : split_.copies,
          solo, p);
      if (op.kind == OpKind::compute) add_rates(cost(span).by_rate, solo);
    }
    add(split_.host, late, host_);
    add(split_.interference, length - solo - late, p);
  }

  void book_exposed(const Op& collective, const Span* waiting, Seconds seconds, Provenance p) {
    std::string cause;
    if (waiting == nullptr || waiting->op > last_work_) {
      cause = "tail_";
    } else if (waiting->op <= first_work_) {
      cause = "first_";
    } else {
      cause = index_.op(*waiting).phase == Phase::forward ? "forward_" : "backward_";
    }
    cause += to_string(collective.collective);
    expose(cause, seconds, p);
  }

  void expose(const std::string& cause, Seconds seconds, Provenance p) {
    for (ExposedPart& part : split_.exposed) {
      if (part.cause == cause) return add(part.seconds, seconds, p);
    }
    split_.exposed.push_back({cause, 0});
    add(split_.exposed.back().seconds, seconds, p);
  }

  // A copy or cast around a collective, on a stream of its own, is booked with that collective:
  // with the one met before on the way back (it prepared it), else with the next one met (it
  // finished it).
  struct Way {
    const Span* waiting = nullptr;  // the op whose wait is explained; nullptr: the end of the step
    const Span* collective = nullptr;
    std::vector<std::pair<const Span*, Seconds>> unclaimed;
  };

  void book_cause(Way& way, const Span& cause, Seconds seconds) {
    const Op& op = index_.op(cause);
    if (op.kind == OpKind::collective) {
      way.collective = &cause;
      for (const auto& [span, part] : way.unclaimed) {
        book_exposed(op, way.waiting, part, provenance(*span));
      }
      way.unclaimed.clear();
      book_exposed(op, way.waiting, seconds, provenance(cause));
    } else if (op.stream < 0) {
      add(split_.host, seconds, host_);
    } else if (way.collective != nullptr) {
      book_exposed(index_.op(*way.collective), way.waiting, seconds, provenance(cause));
    } else {
      way.unclaimed.push_back({&cause, seconds});
    }
  }

  // Where a lane was held: by the loader (it waits for a batch, or reads one itself), or by an op
  // that it waited for.
  void find_waits(const Op& op, std::int32_t step, OpIndex index) {
    if (op.kind != OpKind::host_wait && op.kind != OpKind::storage) return;
    const Span* span = index_.find(step, index);
    if (span == nullptr || span->end <= span->start) return;
    if (op.phase == Phase::load && op.lane == 0) {
      loading_.push_back({span->start, span->end});
    } else if (op.kind == OpKind::host_wait && span->bound == Bound::wait) {
      const auto lane = static_cast<std::size_t>(op.lane);
      if (blocked_.size() <= lane) blocked_.resize(lane + 1);
      blocked_[lane].push_back(span);
    }
  }

  // The last wait before `at` on its lane that did block; nullptr: none.
  const Span* blocked_before(const Span& at) const {
    const auto lane = static_cast<std::size_t>(index_.op(at).lane);
    if (lane >= blocked_.size()) return nullptr;
    const std::vector<const Span*>& waits = blocked_[lane];
    const auto next =
        std::lower_bound(waits.begin(), waits.end(), &at, [](const Span* a, const Span* b) {
          return a->step != b->step ? a->step < b->step : a->op < b->op;
        });
    return next == waits.begin() ? nullptr : *(next - 1);
  }

  // The host had not issued: because it waited for its data, or by itself.
  void book_host(Seconds from, Seconds to) {
    const Seconds loading = length(intersect(merged({{from, to}}), merged(loading_)));
    if (loading > 0) expose("loader", loading, Provenance::assumed);
    add(split_.host, to - from - loading, host_);
  }

  // Follows the constraint that was met last, back to the beginning of the gap.
  void book_gap(Seconds from, Seconds to, const Span& waiting) {
    Way way;
    way.waiting = &waiting;
    walk(way, from, to, waiting);
  }

  void walk(Way& way, Seconds from, Seconds to, const Span& start) {
    follow(way, from, to, start);
    for (const auto& [span, part] : way.unclaimed) add(split_.other, part, provenance(*span));
  }

  void follow(Way& way, Seconds from, Seconds to, const Span& start) {
    const Span* at = &start;
    Seconds t = to;
    while (t > from) {
      const Span* cause = nullptr;
      if (at->bound == Bound::host) {
        // Since its last wait the host itself was late; that wait's own cause explains the rest.
        const Span* wait = blocked_before(*at);
        if (wait != nullptr) cause = index_.find(wait->cause_step, wait->cause);
        const Seconds since = cause == nullptr ? from : std::clamp(wait->end, from, t);
        book_host(since, t);
        t = since;
        if (t <= from) return;
      } else if (at->bound == Bound::wait || at->bound == Bound::communicator) {
        cause = index_.find(at->cause_step, at->cause);
      } else if (at->bound == Bound::stream) {
        cause = index_.before_on_stream(*at);
      }
      if (cause == nullptr) {
        add(split_.other, t - from, host_);
        return;
      }
      const Seconds since = std::max(from, std::min(t, cause->start));
      book_cause(way, *cause, t - since);
      t = since;
      at = cause;
    }
  }

  // After the last op of the compute stream: back from the op that ends the step.
  void book_tail(Seconds from) {
    const Span* last = index_.last_to_end();
    if (last == nullptr || last->end <= from) {
      add(split_.other, end_ - from, host_);
      return;
    }
    const Seconds since = std::max(from, last->start);
    Way way;
    book_cause(way, *last, end_ - since);
    walk(way, from, since, *last);
  }

  const CostTable& costs_;
  const Timeline& timeline_;
  Provenance host_;
  SpanIndex index_;
  StreamIndex stream_ = -1;
  Seconds begin_ = 0, end_ = 0;
  OpIndex first_work_ = -1, last_work_ = -1;
  // Both in the last two steps.
  std::vector<Interval> loading_;                  // of the main lane
  std::vector<std::vector<const Span*>> blocked_;  // by lane, in its order
  TimeSplit split_;
};

}  // namespace

Seconds TimeSplit::exposed_total() const {
  return std::accumulate(exposed.begin(), exposed.end(), 0.0,
                         [](Seconds sum, const ExposedPart& part) { return sum + part.seconds; });
}

Seconds TimeSplit::exposed_by(std::string_view cause) const {
  for (const ExposedPart& part : exposed) {
    if (part.cause == cause) return part.seconds;
  }
  return 0;
}

Seconds TimeSplit::total() const {
  return compute + copies + interference + optimizer + host + other + exposed_total();
}

TimeSplit split_time(const Schedule& schedule, const CostTable& costs, const Timeline& timeline,
                     Provenance host) {
  STEPCAST_ASSERT(!timeline.steps.empty() && !schedule.roles.empty(), "a timeline has steps");
  return Splitter(schedule, costs, timeline, host).run();
}

}  // namespace stepcast
