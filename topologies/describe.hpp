#pragma once
// Text for people: `stepcast show machine NAME`, `stepcast show gpu NAME`.

#include <string>

#include "topologies/topology.hpp"

namespace stepcast {

// Figures of a GPU, each group with its source.
std::string describe(const Gpu& gpu);
// Host, GPUs, NICs, a table of links, who reaches whom how, bisection, sources.
std::string describe(const Machine& machine);
// One paragraph: nodes, ranks, fabric, what the network gives.
std::string describe(const Cluster& cluster);

}  // namespace stepcast
