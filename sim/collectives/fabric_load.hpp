#pragma once
// What collectives that cross leaf switches ask of the uplinks. A leaf holds leaf_ports nodes; its
// uplinks move all they send, divided by the oversubscription.

#include "sim/collectives/axis_groups.hpp"
#include "sim/collectives/nccl/types.hpp"

namespace stepcast {

struct FabricLoad {
  double bytes = 0;    // out of the fullest leaf, per byte of the collective's size
  double seconds = 0;  // of its uplinks, for one byte
};

// `sends`: bytes a node sends for the communicator, per byte of size. Counted are all communicators
// that lie as this one does, on the leaf's other nodes. Rings visit nodes in order and so leave a
// leaf once; a tree's edges and PAT's doubling distances leave it more often.
FabricLoad fabric_load(const Cluster& cluster, const GroupKind& kind, NcclAlgorithm algorithm,
                       double sends);

// What the switches beyond the first add to the latency of a call, us. NCCL's latency of a step
// between nodes was fitted where one switch lay between them. A ring's chunk passes its neighbours
// one after another, and so leaves a leaf once for each leaf; on a tree those levels leave it whose
// distance is a leaf or more.
double fabric_delay_us(const Cluster& cluster, const GroupKind& kind, CollectiveKind collective,
                       NcclAlgorithm algorithm);

// Edges of both trees of a double binary tree over `nodes` nodes that leave the fullest block of
// `block` consecutive ones.
int tree_edges_leaving(int nodes, int block);

}  // namespace stepcast
