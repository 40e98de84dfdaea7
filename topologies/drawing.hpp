#pragma once
// A machine as a picture: Graphviz text, or an SVG of its PCIe trees with the NVLinks below.

#include <string>

#include "topologies/topology.hpp"

namespace stepcast {

std::string to_dot(const Machine& machine);
std::string to_svg(const Machine& machine);

}  // namespace stepcast
