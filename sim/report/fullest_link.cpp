#include "sim/report/fullest_link.hpp"

#include <map>

namespace stepcast {

std::string fullest_link(const std::vector<std::pair<std::string, Seconds>>& loads) {
  std::map<std::string, Seconds> sums;
  for (const auto& [link, seconds] : loads) sums[link] += seconds;
  std::string fullest;
  Seconds most = 0;
  for (const auto& [link, seconds] : sums) {
    if (seconds <= most) continue;
    most = seconds;
    fullest = link;
  }
  const auto nic = sums.find("nic");
  if (fullest == "pcie" && nic != sums.end() && nic_binds(nic->second, most)) return "nic";
  return fullest;
}

}  // namespace stepcast
