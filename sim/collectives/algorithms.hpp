#pragma once
// Ways to do a collective that are not NCCL's choice, for comparison: what each sends, in how many
// steps, whether it grows with the number of ranks, and how long it would take on the same links.
//
//   for (const AlgorithmCost& a : compare_algorithms(CollectiveKind::all_reduce, 16, 1e9, rates))
//     ...
//
// The closed forms are in algorithms.cpp and docs/collectives.md; tested by
// tests/unit/collectives/algorithms_test.cpp with numbers worked out by hand.

#include <optional>
#include <string>
#include <vector>

#include "base/units.hpp"
#include "sim/schedule/schedule.hpp"

namespace stepcast {

// The links, as one step of a collective sees them. GB/s a direction.
struct StepRates {
  int nodes = 1;
  double base_us = 0;    // once a collective
  double intra_us = 0;   // a step within a node
  double inter_us = 0;   // a step between nodes
  double gpu_gbps = 0;   // out of a GPU to others of its node
  double node_gbps = 0;  // out of a node over all its NICs
  double nic_gbps = 0;   // out of a node for one GPU
};

enum class Algorithm : std::uint8_t {
  centralised,  // all send to one, which sends back to all: nn.DataParallel
  ring,
  tree,  // double binary tree
  recursive_doubling,
  halving_doubling,
  hierarchical,  // within the nodes, between them, within them
};
std::string_view to_string(Algorithm algorithm);

struct AlgorithmCost {
  Algorithm algorithm = Algorithm::ring;
  int steps = 0;          // one after the other
  double bytes_sent = 0;  // by the busiest GPU
  std::string growth;     // of bytes_sent with the ranks: "no", "log N", "N"
  Seconds seconds = 0;
};

// Those of `kind` (all_reduce, all_gather or reduce_scatter) on `ranks` GPUs, spread evenly over
// rates.nodes. `size`: the tensor; gathered; unreduced. Throws InputError for another kind.
std::vector<AlgorithmCost> compare_algorithms(CollectiveKind kind, int ranks, double size,
                                              const StepRates& rates);

}  // namespace stepcast
