#pragma once
// A node of which only some GPUs are used: the others vanish with their links, everything else
// stays (a PCIe switch keeps its NIC). GPUs are renumbered 0, 1, ... in the old order.

#include <vector>

#include "topologies/topology.hpp"

namespace stepcast {

// `gpus` are indices of machine.gpus. Throws InputError for an unknown or repeated one.
Machine with_gpus(const Machine& machine, const std::vector<int>& gpus);

// The used part of a full node of the cluster: its first gpus_per_node GPUs.
Machine used_node(const Cluster& cluster);

}  // namespace stepcast
