#include "sim/interop/trace_split.hpp"

#include <algorithm>

namespace stepcast {

namespace {

// A kernel starts this soon after its launch call returned where nothing else held it.
constexpr double launch_latency_us = 3;

class Splitter {
 public:
  Splitter(TraceStep& step, const std::vector<TraceSlice>& slices, int main_stream,
           const TraceHost& host, const std::vector<std::string>& kinds)
      : step_(step), host_(host), kinds_(kinds) {
    for (const TraceSlice& slice : slices) {
      if (slice.end_us <= step.begin_us || slice.start_us >= step.end_us) continue;
      (slice.stream == main_stream ? main_ : side_).push_back(&slice);
    }
  }

  void run() {
    prepare();
    double cursor = step_.begin_us;
    for (const TraceSlice* slice : main_) {
      if (slice->start_us > cursor) {
        gap(cursor, slice->start_us, slice);
        cursor = slice->start_us;  // also where the slice has no length
      }
      const double from = cursor;
      const double to = std::min(slice->end_us, step_.end_us);
      if (to <= from) continue;
      if (slice->what == KernelClass::collective) {
        expose(*slice, to - from);
      } else {
        step_.class_us[static_cast<std::size_t>(slice->what)] += to - from;
      }
      cursor = to;
    }
    if (cursor < step_.end_us) gap(cursor, step_.end_us, nullptr);
    overlap();
  }

 private:
  struct Piece {
    double from = 0, to = 0;
    const TraceSlice* slice = nullptr;
  };

  void expose(const TraceSlice& collective, double us) {
    const std::string& kind =
        collective.call < 0 ? unknown_ : kinds_[static_cast<std::size_t>(collective.call)];
    step_.exposed_by_kind_us[kind] += us;
  }

  static bool bound_by_launch(const TraceSlice& slice) {
    return slice.launched_us >= 0 && slice.start_us <= slice.launched_us + launch_latency_us;
  }

  // The end of the last synchronisation of its thread before it was launched.
  double held_until(const TraceSlice& slice) const {
    if (slice.thread < 0 || static_cast<std::size_t>(slice.thread) >= host_.synced.size()) {
      return step_.begin_us;
    }
    const std::vector<Interval>& list = host_.synced[static_cast<std::size_t>(slice.thread)];
    const auto next =
        std::upper_bound(list.begin(), list.end(), slice.launched_us,
                         [](double at, const Interval& interval) { return at < interval.end; });
    return next == list.begin() ? step_.begin_us : (next - 1)->end;
  }

  void host(double from, double to) {
    if (to <= from) return;
    const double loading = length(intersect({{from, to}}, host_.loading));
    if (loading > 0) step_.exposed_by_kind_us["loader"] += loading;
    step_.host_us += to - from - loading;
  }

  void gap(double from, double to, const TraceSlice* next) {
    double until = to;
    if (next != nullptr && bound_by_launch(*next)) {
      const double since = std::clamp(held_until(*next), from, to);
      host(since, to);
      until = since;
    }
    if (until > from) waited(from, until);
  }

  // Collectives of other streams as disjoint pieces by time; where two overlap, the earlier one has
  // it. And when any other kernel of theirs ran.
  void prepare() {
    double covered = step_.begin_us;
    std::vector<Interval> others;
    for (const TraceSlice* slice : side_) {
      const double from = std::max(slice->start_us, step_.begin_us);
      const double to = std::min(slice->end_us, step_.end_us);
      if (slice->what != KernelClass::collective) {
        others.push_back({from, to});
      } else if (to > covered) {
        pieces_.push_back({std::max(from, covered), to, slice});
        covered = to;
      }
    }
    others_ = merged(std::move(others));
  }

  // The main stream waited for others. Gaps come in the order of time, so that each list is passed
  // once.
  void waited(double from, double to) {
    while (piece_ < pieces_.size() && pieces_[piece_].to <= from) ++piece_;
    const Piece* before = nullptr;
    double at = from;
    std::size_t i = piece_;
    for (; i < pieces_.size() && pieces_[i].from < to; ++i) {
      if (pieces_[i].from > at) around(at, pieces_[i].from, &pieces_[i]);
      const double since = std::max(at, pieces_[i].from);
      const double until = std::min(to, pieces_[i].to);
      expose(*pieces_[i].slice, until - since);
      before = &pieces_[i];
      at = until;
    }
    if (at < to) around(at, to, before);
  }

  // Part of a gap in which no collective runs; `collective` is the one next to it, if the gap has
  // any.
  void around(double from, double to, const Piece* collective) {
    while (other_ < others_.size() && others_[other_].end <= from) ++other_;
    double at = from;
    for (std::size_t i = other_; i < others_.size() && others_[i].begin < to; ++i) {
      if (others_[i].begin > at) nothing(at, others_[i].begin);
      const double since = std::max(at, others_[i].begin);
      const double until = std::min(to, others_[i].end);
      if (collective != nullptr) {
        expose(*collective->slice, until - since);
      } else {
        step_.idle_us += until - since;
      }
      at = until;
    }
    if (at < to) nothing(at, to);
  }

  // No stream runs anything: the host's, if what runs next had not been launched.
  void nothing(double from, double to) {
    const auto next =
        std::lower_bound(side_.begin(), side_.end(), to,
                         [](const TraceSlice* slice, double t) { return slice->start_us < t; });
    if (next != side_.end() && bound_by_launch(**next) && (*next)->start_us <= to) {
      return host(from, to);
    }
    step_.idle_us += to - from;
  }

  void overlap() {
    std::vector<Interval> collectives, others;
    for (const std::vector<const TraceSlice*>* list : {&main_, &side_}) {
      for (const TraceSlice* slice : *list) {
        const Interval cut = {std::max(slice->start_us, step_.begin_us),
                              std::min(slice->end_us, step_.end_us)};
        (slice->what == KernelClass::collective ? collectives : others).push_back(cut);
      }
    }
    collectives = merged(std::move(collectives));
    step_.collective_us = length(collectives);
    step_.hidden_us = length(intersect(collectives, merged(std::move(others))));
  }

  TraceStep& step_;
  const TraceHost& host_;
  const std::vector<std::string>& kinds_;
  std::string unknown_ = "unknown";
  std::vector<const TraceSlice*> main_, side_;  // within the step, by start
  std::vector<Piece> pieces_;
  std::vector<Interval> others_;
  std::size_t piece_ = 0, other_ = 0;  // the first that has not passed
};

}  // namespace

void split_step(TraceStep& step, const std::vector<TraceSlice>& slices, int main_stream,
                const TraceHost& host, const std::vector<std::string>& kinds) {
  Splitter(step, slices, main_stream, host, kinds).run();
}

}  // namespace stepcast
