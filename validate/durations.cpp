#include "validate/durations.hpp"

namespace stepcast {

runtime::Durations durations_of(const Schedule& schedule, const CostTable& costs) {
  runtime::Durations all;
  for (std::size_t r = 0; r < schedule.roles.size(); ++r) {
    std::vector<std::vector<runtime::OpSeconds>> role;
    for (std::size_t p = 0; p < schedule.roles[r].steps.size(); ++p) {
      std::vector<runtime::OpSeconds> program;
      for (std::size_t i = 0; i < schedule.roles[r].steps[p].ops.size(); ++i) {
        if (costs.cost_of[r][p][i] < 0) {
          program.emplace_back();
          continue;
        }
        const OpCost& cost =
            costs.cost(static_cast<int>(r), static_cast<int>(p), static_cast<OpIndex>(i));
        program.push_back({cost.solo, cost.host});
      }
      role.push_back(std::move(program));
    }
    all.push_back(std::move(role));
  }
  return all;
}

runtime::Durations run_durations(const Forecast& f) {
  if (f.resolved.device.op_overhead == 0) return durations_of(f.schedule, f.costs);
  const Resolved& r = f.resolved;
  MeasuredDevice bare = r.device;
  bare.op_overhead = 0;
  const Collectives collectives(r.cluster, r.step.mesh, r.collectives);
  return durations_of(f.schedule,
                      bind_costs(f.schedule, r.cluster, collectives, r.profile, r.loader, bare));
}

}  // namespace stepcast
