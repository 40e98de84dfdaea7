#pragma once
// NCCL's graph search for one node of a communicator: how many channels at which speed rings, trees
// and NVLS get. See search.cpp. Tested against golden/search.csv.

#include "sim/collectives/nccl/constants.hpp"
#include "sim/collectives/nccl/system.hpp"

namespace stepcast::nccl {

// NVLS' heads of a node (NCCL_MAX_NVLS_ARITY): more GPUs than that are in NVLink domains alone.
constexpr int most_nvls_heads = 32;

// least: leaves out trials that cannot change the answer. every_visit: makes every visit NCCL
// makes, ten times slower; the tests compare the two.
enum class Effort : std::uint8_t { least, every_visit };

// What rings, trees and NVLS get on this node. across_nodes is a property of the system (it holds
// NICs or not). Graphs that the user gave (system.limits.graphs) stand in place of a search.
// Whether nothing was found: NCCL then takes rank order and 0.1 GB/s, which is no link's speed. So
// it goes on two-socket AMD servers with GPUs from compute capability 10.0: NCCL takes the way
// between two AMD CPUs for 16 GB/s, and tries no speed below 18 for such GPUs within a node.
bool is_placeholder(const GraphResult& graph);

SearchResult search_graphs(const Constants& constants, const System& system,
                           Effort effort = Effort::least);

// All nodes of a communicator use what the weakest found: fewest channels, lowest speeds, worst
// path types. The channel orders stay those of the first.
void weaken(SearchResult& result, const SearchResult& other);

}  // namespace stepcast::nccl
