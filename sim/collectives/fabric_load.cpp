// Example: ring all-reduce of S over 64 nodes, 32 a leaf, 4:1. Each leaf sends the ring's volume
// once, about 2 S, over uplinks of 32 nodes' NICs / 4: 1/8 of what a node's NICs take for it.
// Oversubscription does not hurt one ring; eight replica groups whose neighbours sit on other
// leaves are another matter, and cost 4 times their NIC time.

#include "sim/collectives/fabric_load.hpp"

#include <algorithm>

#include "topologies/fabric.hpp"

namespace stepcast {
namespace {

// Parent of node k in the binary tree that NCCL builds over 0..nodes-1; -1 for the root 0.
// Lowest set bit b: parent (k ^ b) | 2b where that exists, else k ^ b.
int parent_of(int k, int nodes) {
  if (k == 0) return -1;
  const int bit = k & -k;
  const int up = (k ^ bit) | (bit << 1);
  return up < nodes ? up : k ^ bit;
}

// The second tree is the first mirrored (even) or shifted by one (odd).
int second_tree(int k, int nodes) { return nodes % 2 == 0 ? nodes - 1 - k : (k + 1) % nodes; }

// Share of PAT's volume that leaves a block: step k sends 2^k of n-1 parts over distance 2^k.
double pat_share(int nodes, int block) {
  double share = 0;
  for (std::int64_t d = 1; d < nodes; d *= 2) {
    const double part = static_cast<double>(std::min<std::int64_t>(d, nodes - d)) / (nodes - 1);
    share += part * static_cast<double>(std::min<std::int64_t>(d, block)) / block;
  }
  return share;
}

int log2_floor(int n) {
  int log = 0;
  for (; n > 1; n >>= 1) ++log;
  return log;
}

bool one_leaf(const Cluster& cluster) {
  const Fabric& fabric = cluster.fabric;
  return fabric.kind == FabricKind::single_switch || fabric.kind == FabricKind::rail_only ||
         cluster.nodes <= fabric.leaf_ports;
}

}  // namespace

int tree_edges_leaving(int nodes, int block) {
  std::vector<int> leaving(static_cast<std::size_t>((nodes + block - 1) / block), 0);
  for (int k = 1; k < nodes; ++k) {
    const int p = parent_of(k, nodes);
    for (const bool second : {false, true}) {
      const int a = (second ? second_tree(k, nodes) : k) / block;
      const int b = (second ? second_tree(p, nodes) : p) / block;
      if (a == b) continue;
      ++leaving[a];
      ++leaving[b];
    }
  }
  return *std::max_element(leaving.begin(), leaving.end());
}

FabricLoad fabric_load(const Cluster& cluster, const GroupKind& kind, NcclAlgorithm algorithm,
                       double sends) {
  const Fabric& fabric = cluster.fabric;
  if (one_leaf(cluster)) return {};
  if (kind.nodes <= 1 || sends <= 0) return {};
  // Nodes of one communicator on a leaf, and how many communicators of the kind are there.
  const int own = std::max(1, fabric.leaf_ports / kind.node_stride);
  const double groups = std::min(kind.node_stride, fabric.leaf_ports);
  const std::int64_t span = (std::int64_t{kind.nodes} - 1) * kind.node_stride + 1;
  // A communicator within a leaf stays there if leaves are whole multiples of it.
  if (span <= fabric.leaf_ports && fabric.leaf_ports % span == 0) return {};
  double leaving = 0;  // bytes of one communicator out of a leaf
  switch (algorithm) {
    case NcclAlgorithm::tree:
    case NcclAlgorithm::nvls_tree: leaving = tree_edges_leaving(kind.nodes, own) * 0.5; break;
    case NcclAlgorithm::pat: leaving = sends * own * pat_share(kind.nodes, own); break;
    default: leaving = sends;
  }
  double nics_gbps = 0;
  for (const Vertex nic : cluster.machine.nics) {
    nics_gbps += fabric.nic_gbps > 0 ? fabric.nic_gbps : cluster.machine.graph[nic].nic_gbps;
  }
  FabricLoad load;
  load.bytes = leaving * groups;
  load.seconds = load.bytes * fabric.oversubscription / (fabric.leaf_ports * nics_gbps * 1e9);
  return load;
}

// Example: ring all-gather over 64 nodes, 32 a leaf, InfiniBand (0.13 us a switch). A chunk makes
// 63 steps, two of them between the leaves, with three switches on the way instead of one: 2 * 2 *
// 0.13 = 0.52 us. On 2 nodes of one dragonfly group each step passes one switch more.
double fabric_delay_us(const Cluster& cluster, const GroupKind& kind, CollectiveKind collective,
                       NcclAlgorithm algorithm) {
  if (kind.nodes <= 1) return 0;
  const Fabric& fabric = cluster.fabric;
  const int rounds = collective == CollectiveKind::all_reduce ? 2 : 1;
  const bool ring = algorithm == NcclAlgorithm::ring;
  const int steps = ring ? kind.nodes - 1 : log2_floor(kind.nodes);
  int leaving = 0;
  if (!one_leaf(cluster)) {
    const int own = std::max(1, fabric.leaf_ports / kind.node_stride);
    leaving =
        ring ? std::min(steps, (kind.nodes + own - 1) / own) : std::max(0, steps - log2_floor(own));
    if (kind.nodes <= own && own % kind.nodes == 0) leaving = 0;
  }
  const int far = switch_hops(cluster, 0, 0, cluster.nodes - 1, 0) - 1;
  const int near = fabric.kind == FabricKind::dragonfly ? 1 : 0;
  return rounds * (leaving * far + (steps - leaving) * near) * fabric.hop_latency_us;
}

}  // namespace stepcast
