#include "sim/schedule/timeline.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace stepcast {

Seconds Timeline::period() const {
  STEPCAST_ASSERT(!steps.empty(), "a timeline without steps has no period");
  const StepSpan& last = steps.back();
  return last.end - (steps.size() == 1 ? last.begin : steps[steps.size() - 2].end);
}

std::vector<Interval> merged(std::vector<Interval> list) {
  std::sort(list.begin(), list.end(),
            [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  std::vector<Interval> result;
  for (const Interval& interval : list) {
    if (interval.end <= interval.begin) continue;
    if (!result.empty() && interval.begin <= result.back().end) {
      result.back().end = std::max(result.back().end, interval.end);
    } else {
      result.push_back(interval);
    }
  }
  return result;
}

std::vector<Interval> intersect(const std::vector<Interval>& a, const std::vector<Interval>& b) {
  std::vector<Interval> result;
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < a.size() && j < b.size()) {
    const Seconds begin = std::max(a[i].begin, b[j].begin);
    const Seconds end = std::min(a[i].end, b[j].end);
    if (begin < end) result.push_back({begin, end});
    if (a[i].end < b[j].end) {
      ++i;
    } else {
      ++j;
    }
  }
  return result;
}

std::vector<Interval> subtract(const std::vector<Interval>& a, const std::vector<Interval>& b) {
  std::vector<Interval> result;
  std::size_t j = 0;
  for (const Interval& interval : a) {
    Seconds begin = interval.begin;
    while (j < b.size() && b[j].end <= begin) ++j;
    // A hole may reach into the next interval of a: look ahead without moving j past it.
    for (std::size_t k = j; k < b.size() && b[k].begin < interval.end; ++k) {
      if (begin < b[k].begin) result.push_back({begin, b[k].begin});
      begin = std::max(begin, b[k].end);
    }
    if (begin < interval.end) result.push_back({begin, interval.end});
  }
  return result;
}

Seconds length(const std::vector<Interval>& list) {
  Seconds sum = 0;
  for (const Interval& interval : list) sum += interval.end - interval.begin;
  return sum;
}

const Op& op_of(const Schedule& schedule, const Timeline& timeline, const Span& span) {
  const StepSpan& step = timeline.steps[static_cast<std::size_t>(span.step)];
  const Role& role = schedule.roles[static_cast<std::size_t>(span.role)];
  return role.steps[static_cast<std::size_t>(step.program_index)]
      .ops[static_cast<std::size_t>(span.op)];
}

std::vector<Interval> busy(const Timeline& timeline, const Schedule& schedule, int role,
                           StreamIndex stream, Interval window) {
  std::vector<Interval> list;
  for (const Span& span : timeline.spans) {
    if (span.role != role || span.end <= window.begin || span.start >= window.end) continue;
    const Op& op = op_of(schedule, timeline, span);
    if (op.stream != stream || op.kind == OpKind::stream_wait) continue;
    list.push_back({std::max(span.start, window.begin), std::min(span.end, window.end)});
  }
  return merged(std::move(list));
}

std::vector<double> occupancy(const Timeline& timeline, const Schedule& schedule, int role,
                              Interval window) {
  const Seconds whole = window.end - window.begin;
  STEPCAST_ASSERT(whole > 0, "an occupancy needs a window that is longer than nothing");
  std::vector<double> result;
  for (std::size_t s = 0; s < schedule.streams.size(); ++s) {
    result.push_back(length(busy(timeline, schedule, role, static_cast<StreamIndex>(s), window)) /
                     whole);
  }
  return result;
}

}  // namespace stepcast
