#include "runtime/replay.hpp"

#include <utility>

namespace stepcast::runtime {

Replay::Replay(const Schedule& schedule, Durations durations, double stretch)
    : schedule_(schedule), durations_(std::move(durations)), stretch_(stretch) {
  STEPCAST_ASSERT(stretch > 0, "time goes forward");
  STEPCAST_ASSERT(durations_.size() == schedule.roles.size(), "durations of every role");
}

const OpSeconds& Replay::seconds(const OpContext& c) const {
  return durations_[static_cast<std::size_t>(c.role)][static_cast<std::size_t>(c.program)]
                   [static_cast<std::size_t>(c.index)];
}

Seconds Replay::duration(const OpContext& c) const { return stretch_ * seconds(c).on_stream; }

// Threads of other ranks that take turns on the lane's lock make it so many times as long.
Seconds Replay::host_duration(const OpContext& c) const {
  const Lane& lane = schedule_.lanes[static_cast<std::size_t>(c.op->lane)];
  return stretch_ * seconds(c).on_host * lane.sharers;
}

Timeline scaled(Timeline timeline, double factor) {
  for (StepSpan& step : timeline.steps) {
    step.begin *= factor;
    step.end *= factor;
  }
  for (Span& span : timeline.spans) {
    span.issued *= factor;
    span.start *= factor;
    span.end *= factor;
    span.solo *= factor;
    span.peer_wait *= factor;
  }
  for (MemorySample& sample : timeline.memory) sample.time *= factor;
  return timeline;
}

}  // namespace stepcast::runtime
