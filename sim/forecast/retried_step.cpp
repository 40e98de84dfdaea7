// A step whose allocator retries, timed with its retries.

#include "sim/forecast/bind.hpp"
#include "sim/forecast/fit.hpp"
#include "sim/forecast/forecast_parts.hpp"
#include "sim/forecast/replica.hpp"
#include "sim/memory/retries.hpp"

namespace stepcast {

std::optional<RetriedStep> retried_step(const Resolved& r, const Schedule& schedule,
                                        const Collectives& collectives, Seconds without,
                                        const std::vector<RoleReplay>& replays,
                                        std::vector<RoleMemory>& roles) {
  if (r.first_step || r.to_run || !retries_in_step(replays)) return std::nullopt;
  if (ends_without_memory(replays)) return std::nullopt;
  RetriedStep run;
  run.schedule = with_retries(schedule, replays);
  run.costs = bind_costs(run.schedule, r.cluster, collectives, r.profile, r.loader, r.device);
  give_compute_time(run.schedule, r.replica, run.costs);
  run.timeline = run_reported_step(r, run.schedule, run.costs);
  std::vector<RoleMemory> then = roles;
  run.memory = replay_within(r, run.schedule, run.timeline, then);
  if (ends_without_memory(run.memory) || !retries_again(run.schedule, replays, run.memory)) {
    for (RoleMemory& role : roles) role.reserved->retried_step = run.timeline.period();
    return std::nullopt;
  }
  roles = std::move(then);
  for (RoleMemory& role : roles) role.reserved->retry_wait = run.timeline.period() - without;
  return run;
}

}  // namespace stepcast
