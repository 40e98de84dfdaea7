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

}  // namespace stepcast
