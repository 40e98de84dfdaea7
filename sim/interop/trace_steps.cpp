#include "sim/interop/trace_steps.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "base/error.hpp"
#include "sim/interop/trace_marks.hpp"

namespace stepcast {

namespace {

constexpr std::size_t most_streams = 1024;

class Steps {
 public:
  Steps(TraceEvents& events, TraceSummary& out) : events_(events), out_(out) {}

  void run() {
    choose_main_stream();
    make_steps();
  }

 private:
  void choose_main_stream() {
    std::map<std::int32_t, double> compute, all;
    for (const TraceSlice& slice : events_.slices) {
      const double us = slice.end_us - slice.start_us;
      all[slice.stream] += us;
      if (slice.what != KernelClass::collective) compute[slice.stream] += us;
      if (all.size() > most_streams) {
        throw InputError({out_.file, 0, "stream"},
                         fmt::format("is one of more than {}; accepted: fewer", most_streams));
      }
    }
    const auto longest = [](const auto& a, const auto& b) { return a.second < b.second; };
    const auto& from = compute.empty() ? all : compute;
    out_.main_stream = std::max_element(from.begin(), from.end(), longest)->first;
  }

  void make_steps() {
    const TraceMarks marks(events_, out_.device, out_.main_stream);
    const std::size_t count = marks.size();
    std::vector<double> ends(count, -1), starts(count, 0);
    std::vector<std::int64_t> kernels(count, 0);
    for (TraceSlice& slice : events_.slices) {
      slice.step = marks.step_of(slice);
      if (slice.step < 0) continue;
      const auto s = static_cast<std::size_t>(slice.step);
      if (kernels[s]++ == 0) starts[s] = slice.start_us;
      ends[s] = std::max(ends[s], slice.end_us);
    }
    std::vector<std::string> kinds;
    kinds.reserve(events_.calls.size());
    for (const TraceCall& call : events_.calls) kinds.push_back(call.kind);
    double before = -1;
    std::vector<int> step_of(count, -1);
    for (std::size_t s = 0; s < count; ++s) {
      if (kernels[s] == 0) continue;
      TraceStep step;
      step.name = marks.name(s);
      step.begin_us = out_.steps.empty() ? starts[s] : before;
      step.end_us = std::max(ends[s], step.begin_us);
      step.kernels = kernels[s];
      before = step.end_us;
      step_of[s] = static_cast<int>(out_.steps.size());
      out_.steps.push_back(std::move(step));
    }
    if (out_.steps.empty()) {
      throw InputError({out_.file, 0, "ProfilerStep"},
                       "has no kernels in its steps; accepted: a trace of whole steps");
    }
    for (const TraceSlice& slice : events_.slices) {
      if (slice.call < 0 || slice.step < 0) continue;
      TraceStep& step =
          out_.steps[static_cast<std::size_t>(step_of[static_cast<std::size_t>(slice.step)])];
      TraceCall call = events_.calls[static_cast<std::size_t>(slice.call)];
      call.start_us = slice.start_us - step.begin_us;
      call.us = slice.end_us - slice.start_us;
      step.calls.push_back(std::move(call));
    }
    if (out_.steps.size() > 10'000) {
      throw InputError({out_.file, 0, "ProfilerStep"},
                       "has more than 10000 steps; accepted: a trace of fewer");
    }
    split_all(kinds);
    choose_typical();
  }

  // One pass over the list: a step's slices are those that start in it and, a stream, the one that
  // still ran at its beginning.
  void split_all(const std::vector<std::string>& kinds) {
    std::size_t next = 0;
    std::map<std::int32_t, TraceSlice> running;  // by stream
    for (TraceStep& step : out_.steps) {
      std::vector<TraceSlice> here;
      for (const auto& [stream, slice] : running) {
        if (slice.end_us > step.begin_us) here.push_back(slice);
      }
      for (; next < events_.slices.size() && events_.slices[next].start_us < step.end_us; ++next) {
        if (events_.slices[next].end_us > step.begin_us) here.push_back(events_.slices[next]);
      }
      running.clear();
      for (const TraceSlice& slice : here) {
        if (slice.end_us <= step.end_us) continue;
        const auto [at, fresh] = running.emplace(slice.stream, slice);
        if (!fresh && slice.end_us > at->second.end_us) at->second = slice;
      }
      std::stable_sort(here.begin(), here.end(), [](const TraceSlice& a, const TraceSlice& b) {
        return a.start_us < b.start_us;
      });
      split_step(step, here, out_.main_stream, events_.host, kinds);
    }
  }

  void choose_typical() {
    const std::size_t count = out_.steps.size();
    std::vector<std::size_t> order(count > 1 ? count - 1 : 1);
    std::iota(order.begin(), order.end(), count > 1 ? 1 : 0);
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return out_.steps[a].length_us() < out_.steps[b].length_us();
    });
    out_.typical = order[order.size() / 2];
  }

  TraceEvents& events_;
  TraceSummary& out_;
};

}  // namespace

void make_trace_steps(TraceEvents& events, TraceSummary& out) { Steps(events, out).run(); }

}  // namespace stepcast
