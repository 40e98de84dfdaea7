#include "sim/forecast/dominated.hpp"

#include <algorithm>
#include <vector>

namespace stepcast {

void drop_dominated(CostTable& table) {
  const std::size_t n = table.resources.size();
  // dominates[a * n + b]: b is asked for at least as much as a, by every segment.
  std::vector<char> dominates(n * n, 1);
  std::vector<Seconds> asked(n);
  for (const Segment& segment : table.segments) {
    std::fill(asked.begin(), asked.end(), 0.0);
    for (std::size_t i = 0; i < static_cast<std::size_t>(segment.demands.count); ++i) {
      const Demand& d = table.demands[static_cast<std::size_t>(segment.demands.first) + i];
      asked[static_cast<std::size_t>(d.resource)] += d.seconds;
    }
    for (std::size_t a = 0; a < n; ++a) {
      for (std::size_t b = 0; b < n; ++b) {
        if (asked[a] > asked[b]) dominates[a * n + b] = 0;
      }
    }
  }
  std::vector<char> dropped(n, 0);
  for (std::size_t a = n; a-- > 0;) {
    for (std::size_t b = 0; b < n && !dropped[a]; ++b) {
      dropped[a] = a != b && !dropped[b] && dominates[a * n + b];
    }
  }
  std::vector<ResourceIndex> renamed(n, -1);
  std::vector<Name> kept;
  for (std::size_t a = 0; a < n; ++a) {
    if (dropped[a]) continue;
    renamed[a] = static_cast<ResourceIndex>(kept.size());
    kept.push_back(table.resources[a]);
  }
  std::vector<Demand> demands;
  for (Segment& segment : table.segments) {
    const auto first = static_cast<std::int32_t>(demands.size());
    for (std::size_t i = 0; i < static_cast<std::size_t>(segment.demands.count); ++i) {
      const Demand& d = table.demands[static_cast<std::size_t>(segment.demands.first) + i];
      const ResourceIndex now = renamed[static_cast<std::size_t>(d.resource)];
      if (now >= 0) demands.push_back({now, d.seconds});
    }
    segment.demands = {first, static_cast<std::int32_t>(demands.size()) - first};
  }
  table.demands = std::move(demands);
  table.resources = std::move(kept);
}

}  // namespace stepcast
