#include "sim/forecast/stragglers.hpp"

#include <algorithm>

#include "sim/engines/jitter.hpp"

namespace stepcast {

Seconds straggling(const Schedule& schedule, const CostTable& costs,
                   const SoftwareProfile& profile) {
  if (profile.rank_jitter <= 0 || schedule.mesh.world_size() == 1) return 0;
  if (!can_jitter(schedule)) return 0;
  const Seconds alike = jitter_folded(schedule, costs, {});
  const Seconds apart = jitter_folded(schedule, costs, {.persistent = profile.rank_jitter});
  return std::max(0.0, apart - alike);
}

Seconds step_with_slowest(Engine& engine, const Schedule& schedule, const CostTable& costs,
                          const RunOptions& options, const SoftwareProfile& profile) {
  return engine.run(schedule, costs, options).period() + straggling(schedule, costs, profile);
}

namespace {

// When the collective begins that each step's ranks wait in, or the step's end; by step.
std::vector<Seconds> meetings(const Schedule& schedule, const Timeline& timeline) {
  struct Last {
    Seconds backward = -1, any = -1;
  };
  std::vector<Last> last(timeline.steps.size());
  for (const Span& span : timeline.spans) {
    const Op& op = op_of(schedule, timeline, span);
    if (op.kind != OpKind::collective) continue;
    Last& step = last[static_cast<std::size_t>(span.step)];
    step.any = std::max(step.any, span.start);
    if (op.phase == Phase::backward) step.backward = std::max(step.backward, span.start);
  }
  std::vector<Seconds> begin;
  for (std::size_t i = 0; i < last.size(); ++i) {
    const Seconds met = last[i].backward >= 0 ? last[i].backward : last[i].any;
    begin.push_back(met >= 0 ? met : timeline.steps[i].end);
  }
  return begin;
}

}  // namespace

void show_straggling(const Schedule& schedule, Seconds lost, Timeline& timeline) {
  if (lost <= 0) return;
  const std::vector<Seconds> met = meetings(schedule, timeline);  // rising
  const auto starts_at = [&](Seconds t) {
    return t +
           lost * static_cast<double>(std::upper_bound(met.begin(), met.end(), t) - met.begin());
  };
  const auto ends_at = [&](Seconds t) {
    return t +
           lost * static_cast<double>(std::lower_bound(met.begin(), met.end(), t) - met.begin());
  };
  for (Span& span : timeline.spans) {
    if (op_of(schedule, timeline, span).kind == OpKind::collective &&
        span.start == met[static_cast<std::size_t>(span.step)]) {
      span.peer_wait += lost;
    }
    span.issued = ends_at(span.issued);
    span.start = starts_at(span.start);
    span.end = ends_at(span.end);
  }
  for (MemorySample& sample : timeline.memory) sample.time = ends_at(sample.time);
  for (std::size_t i = 0; i < timeline.steps.size(); ++i) {
    timeline.steps[i].begin += lost * static_cast<double>(i);
    timeline.steps[i].end += lost * static_cast<double>(i + 1);
  }
}

}  // namespace stepcast
