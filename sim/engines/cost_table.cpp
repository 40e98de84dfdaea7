#include "sim/engines/cost_table.hpp"

#include <cmath>

#include "base/error.hpp"

namespace stepcast {

const OpCost& CostTable::cost(int role, int program, OpIndex op) const {
  static const OpCost nothing{};
  const std::int32_t index =
      cost_of[static_cast<std::size_t>(role)][static_cast<std::size_t>(program)]
             [static_cast<std::size_t>(op)];
  return index < 0 ? nothing : costs[static_cast<std::size_t>(index)];
}

std::span<const Segment> CostTable::segments_of(const OpCost& cost) const {
  return std::span(segments).subspan(static_cast<std::size_t>(cost.segments.first),
                                     static_cast<std::size_t>(cost.segments.count));
}

std::span<const Demand> CostTable::demands_of(const Segment& segment) const {
  return std::span(demands).subspan(static_cast<std::size_t>(segment.demands.first),
                                    static_cast<std::size_t>(segment.demands.count));
}

ResourceIndex CostTable::resource(Name name) {
  for (std::size_t i = 0; i < resources.size(); ++i) {
    if (resources[i] == name) return static_cast<ResourceIndex>(i);
  }
  resources.push_back(name);
  return static_cast<ResourceIndex>(resources.size() - 1);
}

std::int32_t CostTable::add(Seconds solo, std::initializer_list<Demand> list, Seconds host,
                            Provenance provenance, Name detail) {
  OpCost cost;
  cost.segments = {static_cast<std::int32_t>(segments.size()), 1};
  cost.solo = solo;
  cost.host = host;
  cost.provenance = provenance;
  cost.detail = detail;
  segments.push_back(
      {solo, {static_cast<std::int32_t>(demands.size()), static_cast<std::int32_t>(list.size())}});
  demands.insert(demands.end(), list.begin(), list.end());
  costs.push_back(cost);
  return static_cast<std::int32_t>(costs.size() - 1);
}

void check(const CostTable& table, const Schedule& schedule) {
  const auto sound = [](Seconds seconds) { return std::isfinite(seconds) && seconds >= 0; };
  for (const OpCost& cost : table.costs) {
    const auto what = [&cost] { return "cost \"" + cost.detail.str() + "\": "; };
    Seconds sum = 0;
    for (const Segment& segment : table.segments_of(cost)) {
      STEPCAST_ASSERT(sound(segment.solo), what() + "a segment needs finite seconds, not negative");
      sum += segment.solo;
      for (const Demand& demand : table.demands_of(segment)) {
        STEPCAST_ASSERT(demand.resource >= 0 &&
                            static_cast<std::size_t>(demand.resource) < table.resources.size(),
                        what() + "a demand names no resource");
        const Name resource = table.resources[static_cast<std::size_t>(demand.resource)];
        STEPCAST_ASSERT(sound(demand.seconds) && demand.seconds <= segment.solo * (1 + 1e-9),
                        what() + "asks more of " + resource.str() + " than its own time alone");
      }
    }
    STEPCAST_ASSERT(sound(cost.host), what() + "host seconds must be finite, not negative");
    STEPCAST_ASSERT(sound(cost.solo) && std::abs(cost.solo - sum) <= 1e-9 * sum,
                    what() + "its seconds are not the sum of its segments");
  }
  STEPCAST_ASSERT(table.cost_of.size() == schedule.roles.size(), "costs of other roles");
  for (std::size_t r = 0; r < schedule.roles.size(); ++r) {
    const auto& steps = schedule.roles[r].steps;
    STEPCAST_ASSERT(table.cost_of[r].size() == steps.size(), "costs of other programs");
    for (std::size_t p = 0; p < steps.size(); ++p) {
      STEPCAST_ASSERT(table.cost_of[r][p].size() == steps[p].ops.size(), "costs of other ops");
      for (const std::int32_t index : table.cost_of[r][p]) {
        STEPCAST_ASSERT(index < static_cast<std::int32_t>(table.costs.size()), "no such cost");
      }
    }
  }
}

}  // namespace stepcast
