#pragma once
// Writes a machine as TOML that load_machine() reads back to the same graph, whatever made it.
//
//   write_file("node.toml", to_toml(machine, {"imported from topo.xml"}));

#include <string>
#include <vector>

#include "topologies/topology.hpp"

namespace stepcast {

// `comments` stand at its head, one a line. machine.gpu.name must be a name or path that
// load_gpu() knows. Tested by round trips of the whole catalog and of every imported file.
std::string to_toml(const Machine& machine, const std::vector<std::string>& comments = {});

}  // namespace stepcast
