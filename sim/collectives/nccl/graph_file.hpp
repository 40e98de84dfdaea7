#pragma once
// NCCL_GRAPH_FILE: the channels that NCCL takes from a file in place of searching them.
//
//   limits.graphs = read_graph_file("graph.xml");          // what environment.cpp does
//   search_graphs(constants, system)                       // takes them
//
// See graph_file.cpp. Tested by tests/unit/collectives/graph_file_test.cpp.

#include <optional>
#include <string>

#include "sim/collectives/nccl/system.hpp"
#include "sim/collectives/nccl/types.hpp"

namespace stepcast::nccl {

// Throws InputError with file, line and attribute: for what is no graph, and for values that no
// search can find.
GraphFile read_graph_file(const std::string& path);
GraphFile parse_graph_file(const std::string& text, const std::string& file);

// The file's graph of this pattern (ring, balanced_tree for trees of any kind, nvls) on the GPUs
// and NICs of `system`; nothing where the file has none, or one without channels: NCCL searches
// then. Throws InputError with file and line where a channel names what the communicator lacks.
std::optional<GraphResult> given_graph(const System& system, Pattern pattern);

}  // namespace stepcast::nccl
