// A step whose allocator retries, timed with its retries.

#include <cstddef>

#include "sim/forecast/bind.hpp"
#include "sim/forecast/fit.hpp"
#include "sim/forecast/forecast_parts.hpp"
#include "sim/forecast/replica.hpp"
#include "sim/memory/retries.hpp"

namespace stepcast {
namespace {

// What the host waits for and asks of the driver in the last step of a role.
Seconds stands_still(const RetriedStep& run, int role) {
  const std::vector<StepProgram>& programs =
      run.schedule.roles[static_cast<std::size_t>(role)].steps;
  const auto last = static_cast<std::int32_t>(run.timeline.steps.size()) - 1;
  Seconds sum = 0;
  for (const Span& span : run.timeline.spans) {
    if (span.role != role || span.step != last) continue;
    if (is_of_retry(programs.back().ops[static_cast<std::size_t>(span.op)])) {
      sum += span.end - span.start;
    }
  }
  return sum;
}

}  // namespace

std::optional<RetriedStep> retried_step(const Resolved& r, const Schedule& schedule,
                                        const Collectives& collectives,
                                        const std::vector<RoleReplay>& replays,
                                        std::vector<RoleMemory>& roles) {
  for (RoleMemory& role : roles) {
    if (role.reserved) role.reserved->retry_wait = 0;  // the step has none of it yet
  }
  if (r.first_step || r.to_run || !retries_in_step(replays)) return std::nullopt;
  if (ends_without_memory(replays)) return std::nullopt;
  RetriedStep run;
  run.schedule = with_retries(schedule, replays);
  run.costs = bind_costs(run.schedule, r.cluster, collectives, r.profile, r.loader, r.device);
  give_compute_time(run.schedule, r.replica, run.costs);
  run.timeline = run_reported_step(r, run.schedule, run.costs);
  std::vector<RoleMemory> then = roles;
  run.memory = replay_within(r, run.schedule, run.timeline, then);
  if (!retries_in_step(run.memory)) {
    for (RoleMemory& role : roles) role.reserved->retried_step = run.timeline.period();
    return std::nullopt;
  }
  for (std::size_t role = 0; role < roles.size(); ++role) {
    roles[role].reserved = then[role].reserved;
    roles[role].reserved->retries = replays[role].retries;
    roles[role].reserved->retry_wait = stands_still(run, static_cast<int>(role));
  }
  return run;
}

}  // namespace stepcast
