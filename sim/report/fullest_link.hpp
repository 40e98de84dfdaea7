#pragma once
// The link that collectives wait for: the one that they load longest.
//
// A NIC hangs on a PCIe link of its own, and every byte crosses both. NCCL's figure for that PCIe
// link is often just below the NIC's line rate (48 GB/s for 400 Gb/s on PCIe 5), so by the numbers
// PCIe would bind; but what one would buy is the network. Where the NIC's time is within a tenth of
// PCIe's, it is the NIC. Tested by tests/unit/report/fullest_link_test.cpp.

#include <string>
#include <vector>

#include "base/units.hpp"
#include "sim/report/summary.hpp"

namespace stepcast {

// Of a NIC and the PCIe link that it hangs on, whether the NIC is what binds.
constexpr bool nic_binds(Seconds nic, Seconds pcie) { return nic >= 0.9 * pcie; }

// Of all calls of these rows that `wanted` takes, together; "" where they load no link.
template <typename Wanted>
std::string fullest_link(const std::vector<CollectiveRow>& rows, Wanted&& wanted);

// From the seconds of each link.
std::string fullest_link(const std::vector<std::pair<std::string, Seconds>>& loads);

template <typename Wanted>
std::string fullest_link(const std::vector<CollectiveRow>& rows, Wanted&& wanted) {
  std::vector<std::pair<std::string, Seconds>> loads;
  for (const CollectiveRow& row : rows) {
    if (!wanted(row)) continue;
    for (const LinkLoad& load : row.cost.loads) {
      loads.emplace_back(load.resource.str(), row.calls * load.seconds);
    }
  }
  return fullest_link(loads);
}

}  // namespace stepcast
