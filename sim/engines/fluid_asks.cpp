#include "sim/engines/fluid_asks.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace stepcast {
namespace {

int resource_of(const CostTable& costs, const char* name) {
  const auto found = std::find(costs.resources.begin(), costs.resources.end(), Name(name));
  return found == costs.resources.end() ? -1 : static_cast<int>(found - costs.resources.begin());
}

std::size_t at(int index) { return static_cast<std::size_t>(index); }

}  // namespace

FluidAsks::FluidAsks(const RunPlan& plan)
    : plan_(plan),
      kinds_(static_cast<int>(plan.costs().resources.size())),
      sm_(resource_of(plan.costs(), "sm")),
      hbm_(resource_of(plan.costs(), "hbm")) {
  STEPCAST_ASSERT(kinds_ <= 64, "more resources than a mask has bits");
  for (const OpCost& cost : plan.costs().costs) {
    Kinds& kinds = kinds_of_.emplace_back(0);
    for (const Segment& segment : plan.costs().segments_of(cost)) {
      for (const Demand& demand : plan.costs().demands_of(segment)) {
        if (demand.seconds > 0) kinds |= Kinds{1} << demand.resource;
      }
    }
  }
}

FluidAsks::Kinds FluidAsks::kinds_of(int role, const OpAt& op) const {
  const std::int32_t cost = plan_.costs_of(role, op.step)[at(op.op)];
  return cost < 0 ? 0 : kinds_of_[at(cost)];
}

double FluidAsks::waiting_share(int role, const OpAt& op) const {
  const auto segments = plan_.costs().segments_of(plan_.cost(role, op));
  if (segments.empty() || segments.front().solo <= 0) return 0;
  double share = 0;
  for (const Demand& demand : plan_.costs().demands_of(segments.front())) {
    if (demand.resource == sm_) share = demand.seconds / segments.front().solo;
  }
  return std::min(1.0, share);
}

void FluidAsks::add_segment(int role, const Segment& segment, Seconds solo) {
  const std::size_t own = asks_.size();
  for (const Demand& demand : plan_.costs().demands_of(segment)) {
    if (demand.seconds <= 0) continue;
    // Bytes spread over the time of the slowest; SMs are held for as long as it takes.
    const Seconds over = demand.resource == sm_ ? segment.solo : solo;
    ask(own, role * kinds_ + demand.resource, demand.seconds / over);
  }
}

FluidAsks::Kinds FluidAsks::add_held(int role, const OpAt& op) {
  const auto segments = plan_.costs().segments_of(plan_.cost(role, op));
  if (segments.empty() || segments.front().solo <= 0) return 0;
  Kinds kinds = 0;
  for (const Demand& demand : plan_.costs().demands_of(segments.front())) {
    if ((demand.resource != sm_ && demand.resource != hbm_) || demand.seconds <= 0) continue;
    kinds |= Kinds{1} << demand.resource;
    ask(asks_.size(), role * kinds_ + demand.resource, demand.seconds / segments.front().solo);
  }
  return kinds;
}

// Adds to what is asked of the same resource from index `own` on, if it is.
void FluidAsks::ask(std::size_t own, int resource, double share) {
  for (std::size_t i = own; i < asks_.size(); ++i) {
    if (asks_[i].resource != resource) continue;
    asks_[i].share = std::min(1.0, asks_[i].share + share);
    return;
  }
  asks_.push_back({resource, std::min(1.0, share)});
}

}  // namespace stepcast
