#pragma once
// What a little more of each resource would gain: the step is run again on costs in which one
// resource is faster.
//
//   gpu      tensor cores and SMs: products and attention
//   hbm      memory bandwidth: norms, optimizer, copies
//   nvlink, pcie, nic, fabric   bytes on that link
//   latency  of collectives: all of them that is not bytes on their fullest link
//   host     what the CPU takes to issue, and the software's own work
//   loader   reading and preparing batches
//
// An op gains only where the resource is the one it loads longest, and only until the next one
// holds it. Example: a collective of 10 ms keeps the NIC busy for 8 and NVLink for 5. With a NIC
// 1.1 times as fast it takes 10 - 8 + 8 / 1.1 = 9.27 ms; with a faster NVLink still 10; with less
// latency 8 + 2 / 1.1 = 9.82. NCCL's choices stay as they are.
//
// Cost: one engine run a resource. Tested by tests/unit/explain/sensitivity_test.cpp, by hand and
// against forecasts with a faster NIC.

#include <string>
#include <vector>

#include "base/units.hpp"
#include "sim/engines/cost_table.hpp"
#include "sim/engines/engine.hpp"
#include "sim/kernels/profile.hpp"
#include "sim/schedule/schedule.hpp"

namespace stepcast {

struct Sensitivity {
  std::string resource;  // "nic and its pcie" where they are as full as each other
  Seconds step = 0;      // with more of it
  double gain = 0;       // of throughput: before / step - 1
};

const std::vector<std::string>& sensitive_resources();

// The costs with `factor` times the speed of one resource.
CostTable with_more(const CostTable& costs, const Schedule& schedule, const std::string& resource,
                    double factor);

// Largest gain first. `before`: the step as it is, by the same engine and options, with what the
// profile's slowest rank costs.
std::vector<Sensitivity> sensitivities(const Schedule& schedule, const CostTable& costs,
                                       Engine& engine, const RunOptions& options,
                                       const SoftwareProfile& profile, Seconds before,
                                       double factor = 1.1);

}  // namespace stepcast
