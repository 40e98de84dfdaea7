#include "sim/explain/sensitivity.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/error.hpp"
#include "sim/forecast/stragglers.hpp"
#include "sim/report/fullest_link.hpp"

namespace stepcast {
namespace {

enum class Use : std::uint8_t { none, kernel, collective, storage };

// What each distinct cost is a cost of.
std::vector<Use> uses(const CostTable& costs, const Schedule& schedule) {
  std::vector<Use> list(costs.costs.size(), Use::none);
  for (std::size_t r = 0; r < schedule.roles.size(); ++r) {
    for (std::size_t p = 0; p < schedule.roles[r].steps.size(); ++p) {
      const std::vector<Op>& ops = schedule.roles[r].steps[p].ops;
      for (std::size_t i = 0; i < ops.size(); ++i) {
        const std::int32_t cost = costs.cost_of[r][p][i];
        if (cost < 0) continue;
        Use& use = list[static_cast<std::size_t>(cost)];
        if (ops[i].kind == OpKind::collective) use = Use::collective;
        if (ops[i].kind == OpKind::compute || ops[i].kind == OpKind::copy) use = Use::kernel;
        if (ops[i].kind == OpKind::storage) use = Use::storage;
      }
    }
  }
  return list;
}

bool is_link(std::string_view resource) { return resource != "sm" && resource != "hbm"; }

// The demands of a segment that compete to be its bottleneck: of a collective the links only.
struct Contest {
  Demand* most = nullptr;
  Seconds next = 0;
};

Contest contest(CostTable& costs, const Segment& segment, Use use) {
  Contest c;
  for (std::int32_t i = 0; i < segment.demands.count; ++i) {
    Demand& d = costs.demands[static_cast<std::size_t>(segment.demands.first + i)];
    const std::string_view name = costs.resources[static_cast<std::size_t>(d.resource)];
    if (use == Use::collective && !is_link(name)) continue;
    if (c.most == nullptr || d.seconds > c.most->seconds) {
      if (c.most != nullptr) c.next = std::max(c.next, c.most->seconds);
      c.most = &d;
    } else {
      c.next = std::max(c.next, d.seconds);
    }
  }
  return c;
}

// A NIC whose own PCIe link is hardly fuller: what binds is the NIC, as fullest_link says, and more
// of it is more of both. Nothing where PCIe alone binds.
Demand* behind_pcie(CostTable& costs, const Segment& segment, const Contest& c) {
  if (c.most == nullptr) return nullptr;
  const auto name = [&](const Demand& d) -> std::string_view {
    return costs.resources[static_cast<std::size_t>(d.resource)];
  };
  if (name(*c.most) != "pcie") return nullptr;
  for (std::int32_t i = 0; i < segment.demands.count; ++i) {
    Demand& d = costs.demands[static_cast<std::size_t>(segment.demands.first + i)];
    if (name(d) == "nic" && nic_binds(d.seconds, c.most->seconds)) return &d;
  }
  return nullptr;
}

// The longest demand of links but these two.
Seconds next_of(CostTable& costs, const Segment& segment, const Demand* a, const Demand* b) {
  Seconds next = 0;
  for (std::int32_t i = 0; i < segment.demands.count; ++i) {
    const Demand& d = costs.demands[static_cast<std::size_t>(segment.demands.first + i)];
    const std::string_view name = costs.resources[static_cast<std::size_t>(d.resource)];
    if (&d != a && &d != b && is_link(name)) next = std::max(next, d.seconds);
  }
  return next;
}

// No demand may be longer than its segment.
void keep_within(CostTable& costs, const Segment& segment) {
  for (std::int32_t i = 0; i < segment.demands.count; ++i) {
    Demand& d = costs.demands[static_cast<std::size_t>(segment.demands.first + i)];
    d.seconds = std::min(d.seconds, segment.solo);
  }
}

}  // namespace

const std::vector<std::string>& sensitive_resources() {
  static const std::vector<std::string> list{"gpu",    "hbm",     "nvlink", "pcie",  "nic",
                                             "fabric", "latency", "host",   "loader"};
  return list;
}

CostTable with_more(const CostTable& costs, const Schedule& schedule, const std::string& resource,
                    double factor) {
  STEPCAST_ASSERT(factor > 0, "a speed");
  CostTable more = costs;
  if (resource == "host") {
    for (OpCost& cost : more.costs) cost.host /= factor;
    return more;
  }
  const std::vector<Use> use_of = uses(costs, schedule);
  const double saved = 1 - 1 / factor;
  const std::string wanted = resource == "gpu" ? "sm" : resource;
  for (std::size_t i = 0; i < more.costs.size(); ++i) {
    OpCost& cost = more.costs[i];
    const Use use = use_of[i];
    cost.solo = 0;
    for (std::int32_t s = 0; s < cost.segments.count; ++s) {
      Segment& segment = more.segments[static_cast<std::size_t>(cost.segments.first + s)];
      const Contest c = contest(more, segment, use);
      const Seconds busy = c.most == nullptr ? 0 : c.most->seconds;
      if (resource == "loader") {
        if (use == Use::storage) segment.solo /= factor;
      } else if (resource == "latency") {
        if (use == Use::collective) segment.solo -= (segment.solo - busy) * saved;
      } else if (c.most != nullptr && use != Use::none) {
        const std::string_view most = more.resources[static_cast<std::size_t>(c.most->resource)];
        Demand* nic = use == Use::collective ? behind_pcie(more, segment, c) : nullptr;
        if (nic != nullptr) {
          if (wanted == "nic") {
            segment.solo =
                std::max(next_of(more, segment, c.most, nic), segment.solo - busy * saved);
            c.most->seconds = busy / factor;
            nic->seconds /= factor;
          }
        } else if (most == wanted) {
          segment.solo = std::max(c.next, segment.solo - busy * saved);
          c.most->seconds = busy / factor;
        }
      }
      keep_within(more, segment);
      cost.solo += segment.solo;
    }
  }
  return more;
}

namespace {

bool nics_behind_pcie(const CostTable& costs, const Schedule& schedule) {
  CostTable copy = costs;
  const std::vector<Use> use_of = uses(copy, schedule);
  for (std::size_t i = 0; i < copy.costs.size(); ++i) {
    if (use_of[i] != Use::collective) continue;
    const OpCost& cost = copy.costs[i];
    for (std::int32_t s = 0; s < cost.segments.count; ++s) {
      const Segment& segment = copy.segments[static_cast<std::size_t>(cost.segments.first + s)];
      if (behind_pcie(copy, segment, contest(copy, segment, use_of[i])) != nullptr) return true;
    }
  }
  return false;
}

}  // namespace

std::vector<Sensitivity> sensitivities(const Schedule& schedule, const CostTable& costs,
                                       Engine& engine, const RunOptions& options,
                                       const SoftwareProfile& profile, Seconds before,
                                       double factor) {
  const bool pairs = nics_behind_pcie(costs, schedule);
  std::vector<Sensitivity> list;
  RunOptions quick = options;
  quick.memory = false;
  for (const std::string& resource : sensitive_resources()) {
    const CostTable more = with_more(costs, schedule, resource, factor);
    const Seconds step = step_with_slowest(engine, schedule, more, quick, profile);
    const bool both = resource == "nic" && pairs;
    list.push_back({both ? "nic and its pcie" : resource, step, before / step - 1});
  }
  std::stable_sort(list.begin(), list.end(),
                   [](const Sensitivity& a, const Sensitivity& b) { return a.gain > b.gain; });
  return list;
}

}  // namespace stepcast
