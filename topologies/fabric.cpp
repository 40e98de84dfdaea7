#include "topologies/fabric.hpp"

#include "base/error.hpp"

namespace stepcast {
namespace {

bool one_leaf_for_all(const Cluster& cluster) {
  return cluster.fabric.kind == FabricKind::single_switch ||
         cluster.fabric.kind == FabricKind::rail_only || cluster.nodes <= cluster.fabric.leaf_ports;
}

// Switches on the way between two NICs of different leaves.
int hops_between_leaves(const Fabric& fabric, int node_a, int node_b) {
  switch (fabric.kind) {
    case FabricKind::fat_tree: {  // leaf, aggregation, core, aggregation, leaf
      const std::int64_t pod = std::int64_t{fabric.leaf_ports} * fabric.leaf_ports;
      return node_a / pod == node_b / pod ? 3 : 5;
    }
    case FabricKind::dragonfly: return 4;  // to the group's gateway, over, from the other's
    case FabricKind::single_switch:
    case FabricKind::leaf_spine:
    case FabricKind::rail_optimised:
    case FabricKind::rail_only: return 3;
  }
  return 3;
}

}  // namespace

int leaf_of(const Cluster& cluster, int node, int nic) {
  STEPCAST_ASSERT(node >= 0 && node < cluster.nodes, "unknown node");
  STEPCAST_ASSERT(nic >= 0 && nic < static_cast<int>(cluster.machine.nics.size()), "unknown NIC");
  const int group = node / cluster.fabric.leaf_ports;
  switch (cluster.fabric.kind) {
    case FabricKind::single_switch: return 0;
    case FabricKind::leaf_spine:
    case FabricKind::fat_tree:
    case FabricKind::dragonfly: return group;
    case FabricKind::rail_only: return nic;
    case FabricKind::rail_optimised:
      return group * static_cast<int>(cluster.machine.nics.size()) + nic;
  }
  return 0;
}

int leaf_count(const Cluster& cluster) {
  if (cluster.machine.nics.empty()) return 0;
  return 1 + leaf_of(cluster, cluster.nodes - 1, static_cast<int>(cluster.machine.nics.size()) - 1);
}

int switch_hops(const Cluster& cluster, int node_a, int nic_a, int node_b, int nic_b) {
  if (node_a == node_b && nic_a == nic_b) return 0;
  const bool together = leaf_of(cluster, node_a, nic_a) == leaf_of(cluster, node_b, nic_b);
  if (together) return cluster.fabric.kind == FabricKind::dragonfly ? 2 : 1;
  // Nothing joins the rails: data changes to the other NIC's rail inside a node, over NVLink.
  if (cluster.fabric.kind == FabricKind::rail_only) return 1;
  return hops_between_leaves(cluster.fabric, node_a, node_b);
}

double fabric_latency_us(const Cluster& cluster) {
  if (cluster.nodes == 1) return 0;
  if (one_leaf_for_all(cluster)) {
    return cluster.fabric.hop_latency_us * (cluster.fabric.kind == FabricKind::dragonfly ? 2 : 1);
  }
  return cluster.fabric.hop_latency_us * hops_between_leaves(cluster.fabric, 0, cluster.nodes - 1);
}

double nic_gbps(const Cluster& cluster, double crossing) {
  const Machine& machine = cluster.machine;
  if (machine.nics.empty()) {
    throw InputError(machine.name + " has no NIC; accepted: a machine with NICs");
  }
  STEPCAST_ASSERT(crossing >= 0 && crossing <= 1, "share of crossing traffic out of range");
  const double nic = machine.graph[machine.nics.front()].nic_gbps;
  const double demand = cluster.fabric.oversubscription * crossing;
  return demand > 1 ? nic / demand : nic;
}

double ring_crossing(const Cluster& cluster) {
  if (one_leaf_for_all(cluster)) return 0;
  return 1.0 / cluster.fabric.leaf_ports;
}

double uniform_crossing(const Cluster& cluster) {
  if (one_leaf_for_all(cluster)) return 0;
  const int elsewhere = cluster.nodes - cluster.fabric.leaf_ports;
  return static_cast<double>(elsewhere) / (cluster.nodes - 1);
}

}  // namespace stepcast
