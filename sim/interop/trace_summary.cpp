#include "sim/interop/trace_summary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <istream>
#include <numeric>

#include "sim/interop/trace_events.hpp"
#include "sim/interop/trace_steps.hpp"

namespace stepcast {

namespace {

void name_kernels(const TraceEvents& events, TraceSummary& out) {
  for (const auto& [name, named] : events.names) {
    out.kernels.push_back({name.size() > 200 ? name.substr(0, 200) : name, named.calls, named.us});
  }
  std::sort(out.kernels.begin(), out.kernels.end(), [](const auto& a, const auto& b) {
    return a.us != b.us ? a.us > b.us : a.name < b.name;
  });
  if (events.names.size() == most_kernel_names) {
    out.notes.push_back(fmt::format(
        "kernels have more than {} names: the longest are of those met first", most_kernel_names));
  }
  if (out.kernels.size() > 20) out.kernels.resize(20);
}

void finish(TraceEvents& events, const TraceSummaryOptions& options, TraceSummary& out) {
  events.join(options.device, out);
  make_trace_steps(events, out);
  name_kernels(events, out);
  if (events.unlaunched == events.slices.size()) {
    out.notes.emplace_back(
        "no kernel has a launch in this trace: steps are told apart by when kernels run, and the "
        "host's part of a gap is not known");
  }
}

}  // namespace

double TraceStep::compute_us() const {
  return std::accumulate(class_us.begin(), class_us.end(), 0.0);
}

double TraceStep::exposed_us() const {
  double sum = 0;
  for (const auto& [kind, us] : exposed_by_kind_us) sum += us;
  return sum;
}

TraceSummary summary_of_trace(const std::string& file, const TraceSummaryOptions& options) {
  TraceSummary out;
  out.file = file;
  TraceEvents events(out.file);
  out.info = read_kineto(file, [&](const KinetoEvent& event) { events.take(event); });
  finish(events, options, out);
  return out;
}

TraceSummary summary_of_trace(std::istream& in, const std::string& name,
                              const TraceSummaryOptions& options) {
  TraceSummary out;
  out.file = name;
  TraceEvents events(out.file);
  out.info = read_kineto(in, name, [&](const KinetoEvent& event) { events.take(event); });
  finish(events, options, out);
  return out;
}

std::vector<double> waited_for_others_us(const std::vector<TraceSummary>& ranks) {
  if (ranks.size() < 2) return {};
  const TraceStep& first = ranks.front().steps[ranks.front().typical];
  if (first.calls.empty()) return {};
  std::vector<const TraceStep*> steps;  // of the same name
  std::vector<double> shortest;
  for (const TraceCall& call : first.calls) shortest.push_back(call.us);
  for (const TraceSummary& rank : ranks) {
    const auto same = std::find_if(rank.steps.begin(), rank.steps.end(),
                                   [&](const TraceStep& step) { return step.name == first.name; });
    if (same == rank.steps.end() || same->calls.size() != first.calls.size()) return {};
    for (std::size_t i = 0; i < shortest.size(); ++i) {
      const TraceCall& call = same->calls[i];
      if (call.kind != first.calls[i].kind || call.bytes != first.calls[i].bytes) return {};
      shortest[i] = std::min(shortest[i], call.us);
    }
    steps.push_back(&*same);
  }
  std::vector<double> waited;
  for (const TraceStep* step : steps) {
    double sum = 0;
    for (std::size_t i = 0; i < shortest.size(); ++i) sum += step->calls[i].us - shortest[i];
    waited.push_back(sum);
  }
  return waited;
}

}  // namespace stepcast
