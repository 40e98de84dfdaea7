#include "sim/report/perturbed.hpp"

#include <algorithm>

namespace stepcast {

std::vector<PeerWait> peer_waits(const Timeline& timeline, int role,
                                 const std::vector<std::string>& names) {
  std::vector<PeerWait> waits;
  const auto last = static_cast<std::int32_t>(timeline.steps.size()) - 1;
  for (const Span& span : timeline.spans) {
    if (span.step != last || span.role != role || span.peer_wait <= 0) continue;
    waits.push_back({names[static_cast<std::size_t>(span.op)], span.peer_wait});
  }
  std::stable_sort(waits.begin(), waits.end(),
                   [](const PeerWait& a, const PeerWait& b) { return a.seconds > b.seconds; });
  return waits;
}

Seconds peer_wait_time(const Timeline& timeline, int role) {
  const auto last = static_cast<std::int32_t>(timeline.steps.size()) - 1;
  const StepSpan& step = timeline.steps.back();
  std::vector<Interval> waits;
  for (const Span& span : timeline.spans) {
    if (span.step != last || span.role != role || span.peer_wait <= 0) continue;
    waits.push_back({span.start - span.peer_wait, span.start});
  }
  return length(intersect(merged(std::move(waits)), {{step.begin, step.end}}));
}

}  // namespace stepcast
