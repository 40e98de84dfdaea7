#pragma once
// Costs of ranks whose node has broken links or is another machine.
//
// A node's ranks need not all see it: with NIC 2 of a node slow, FSDP's one ring of all GPUs has
// all of the node's GPUs lose the same, while under HSDP only the replica group on that rail loses.
// So each GPU of a broken node is asked for its collectives, and GPUs with the same answers share a
// cost table; those that notice nothing keep the usual one. A node of another machine has one
// table, of a cluster that is all of that machine: its kernels take its GPU's time, and a
// collective of both kinds of node goes at the pace of the slower, as engines have it of roles that
// meet. (NCCL would settle on one algorithm for both; here each side takes its own, and the slower
// one counts.)
//
// Cost: a few hundred collectives a GPU of each node that differs, and one binding a table: some
// milliseconds. Tested by tests/unit/forecast/perturb_links_test.cpp.

#include <cstdint>
#include <vector>

#include "sim/engines/cost_table.hpp"
#include "sim/forecast/resolve.hpp"
#include "sim/schedule/schedule.hpp"

namespace stepcast {

struct OtherCosts {
  std::vector<CostTable> tables;      // for the schedule whose ranks are perturbed
  std::vector<std::int32_t> of_rank;  // by rank: 0: as before, k: tables[k - 1]; empty: all 0
};

OtherCosts other_costs(const Schedule& schedule, const Resolved& resolved);

}  // namespace stepcast
