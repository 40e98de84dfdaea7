#include "sim/interop/trace_marks.hpp"

#include <algorithm>
#include <iterator>
#include <set>
#include <unordered_map>

namespace stepcast {

namespace {

void by_begin(std::vector<TraceMark>& marks) {
  std::stable_sort(marks.begin(), marks.end(),
                   [](const TraceMark& a, const TraceMark& b) { return a.begin_us < b.begin_us; });
}

// Those of the processes that launched the device's kernels; all where there are none of theirs.
std::vector<TraceMark> of_launching_processes(const TraceEvents& events) {
  std::set<std::int32_t> threads;
  for (const TraceSlice& slice : events.slices) {
    if (slice.thread >= 0) threads.insert(slice.thread);
  }
  std::set<std::int64_t> processes;
  for (const auto& [key, thread] : events.threads) {
    if (threads.count(thread) > 0) processes.insert(key.first);
  }
  std::vector<TraceMark> theirs;
  for (const TraceMark& mark : events.marks) {
    if (processes.count(mark.pid) > 0) theirs.push_back(mark);
  }
  return theirs.empty() ? events.marks : theirs;
}

}  // namespace

TraceMarks::TraceMarks(const TraceEvents& events, int device, int main_stream) {
  std::vector<TraceMark> gpu;
  for (const TraceMark& mark : events.gpu_marks) {
    if (mark.device == device) gpu.push_back(mark);
  }
  const bool launched = events.unlaunched < events.slices.size();
  if (!gpu.empty() && (events.marks.empty() || !launched)) {
    take_gpu(std::move(gpu), main_stream);
  } else if (!events.marks.empty()) {
    take_host(events);
  } else {
    one_ = true;
    names_.emplace_back("trace");
    steps_.emplace_back();
  }
}

void TraceMarks::take_host(const TraceEvents& events) {
  std::vector<TraceMark> marks = of_launching_processes(events);
  by_begin(marks);
  for (const TraceMark& mark : marks) {
    if (!names_.empty() && names_.back() == mark.name) continue;  // once a thread
    steps_.push_back({mark.begin_us, mark.end_us, static_cast<std::int32_t>(steps_.size())});
    names_.push_back(mark.name);
  }
}

void TraceMarks::take_gpu(std::vector<TraceMark> marks, int main_stream) {
  on_gpu_ = true;
  by_begin(marks);
  // The main stream's first: a copy for the next step may run long before it begins.
  std::stable_partition(marks.begin(), marks.end(),
                        [&](const TraceMark& mark) { return mark.stream == main_stream; });
  std::set<std::string> known;
  std::vector<TraceMark> steps;
  for (const TraceMark& mark : marks) {
    if (known.insert(mark.name).second) steps.push_back(mark);
  }
  by_begin(steps);
  std::unordered_map<std::string, std::int32_t> step_of_name;
  for (const TraceMark& mark : steps) {
    const auto step = static_cast<std::int32_t>(steps_.size());
    step_of_name.emplace(mark.name, step);
    steps_.push_back({mark.begin_us, mark.end_us, step});
    names_.push_back(mark.name);
  }
  by_begin(marks);
  for (const TraceMark& mark : marks) {
    streams_[mark.stream].push_back({mark.begin_us, mark.end_us, step_of_name.at(mark.name)});
  }
}

std::int32_t TraceMarks::step_of(const TraceSlice& slice) const {
  if (one_) return 0;
  const auto own = streams_.find(slice.stream);
  const std::vector<Span>& spans = own == streams_.end() ? steps_ : own->second;
  const double when = on_gpu_ || slice.thread < 0 ? slice.start_us : slice.called_us;
  const auto next =
      std::upper_bound(spans.begin(), spans.end(), when,
                       [](double at, const Span& span) { return at < span.begin_us; });
  if (next == spans.begin()) return -1;
  // What came after the last mark had ended is no part of it.
  if (next == spans.end() && when > spans.back().end_us) return -1;
  return std::prev(next)->step;
}

}  // namespace stepcast
