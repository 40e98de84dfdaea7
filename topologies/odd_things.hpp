#pragma once
// What is odd about a machine, in sentences for `stepcast topo check`: what makes NCCL take a
// detour, what halves a link, what differs between devices that should be alike.

#include <string>
#include <vector>

#include "topologies/topology.hpp"

namespace stepcast {

struct OddThing {
  std::string what;  // "GPUs 2, 3: the nearest NIC is SYS away"
  std::string why;   // what it means for a step
};

// Empty for a machine where all is as it should be. Tested by tests/unit/topologies.
std::vector<OddThing> odd_things(const Machine& machine);

}  // namespace stepcast
