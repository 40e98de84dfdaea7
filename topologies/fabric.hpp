#pragma once
// What the fabric between nodes leaves of a NIC's speed, and how far two NICs are apart.
//
// A leaf switch has leaf_ports downlinks (one NIC each of leaf_ports nodes on a rail; all NICs of
// leaf_ports nodes on a leaf of a leaf-spine fabric) and uplinks of their sum / oversubscription.
// Traffic that stays on the leaf runs at the NIC's speed. If a share `crossing` of what a full leaf
// sends leaves it, the uplinks carry crossing * NIC speed for every downlink, so a NIC gets
//
//   min(nic, nic / (oversubscription * crossing)).
//
// Example: 400 Gb/s NICs (50 GB/s), 32 nodes a rail leaf, 4:1, 64 nodes. A ring in node order
// leaves each leaf once: crossing 1/32, no loss. A uniform exchange leaves with 32/63 of its
// traffic: 50 / (4 * 0.508) = 24.6 GB/s.

#include "topologies/topology.hpp"

namespace stepcast {

// The leaf switch that NIC `nic` of node `node` hangs on.
int leaf_of(const Cluster& cluster, int node, int nic);
int leaf_count(const Cluster& cluster);

// Switches between two NICs: 0 for one and the same, 1 on one leaf, 3 by way of a spine, 5 by way
// of a fat tree's core; on a dragonfly 2 within a group and 4 between two.
int switch_hops(const Cluster& cluster, int node_a, int nic_a, int node_b, int nic_b);
// Delay of the switches between neighbouring nodes that are farthest apart, microseconds.
double fabric_latency_us(const Cluster& cluster);

// GB/s a direction that every NIC gets when the share `crossing` (0 to 1) of the traffic of a full
// leaf leaves it. Throws InputError where the machine has no NIC.
double nic_gbps(const Cluster& cluster, double crossing);
// The share that leaves the fullest leaf when node i sends to node i + 1 on the same NIC number.
double ring_crossing(const Cluster& cluster);
// The same when every node sends as much to every other one on the same NIC number.
double uniform_crossing(const Cluster& cluster);

}  // namespace stepcast
