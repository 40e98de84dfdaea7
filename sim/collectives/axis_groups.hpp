#pragma once
// The communicators of a mesh axis on a cluster, as few as differ.
//
// Ranks fill nodes in order, gpus_per_node each. Example, 20 ranks on nodes of 8, mesh 2 x 10:
//
//   shard      {0..9} {10..19}: nodes 0 and 1 hold 8 + 2 ranks, nodes 1 and 2 hold 6 + 4
//   replicate  {0,10} {1,11} ... {9,19}: two nodes, one rank each
//
// Where `siblings` GPUs are one replica (tensor, pipeline or context parallel), the mesh is that of
// the data-parallel ranks, and each sibling has communicators of its own: `inner` neighbours in
// rank order, then the data-parallel ranks, then the rest of the replica. Example, 16 GPUs, nodes
// of 8, world axis:
//
//   siblings 8, inner 8  {0,8} {1,9} ... {7,15}: one GPU a node each, eight share the node's NICs
//   siblings 2, inner 2  {0,2,..14} {1,3,..15}: four GPUs a node
//   siblings 2, inner 1  {0..7} {8..15}: pipeline stages outside, no NIC at all
//
// A communicator is known by the local GPUs it has on its nodes (a set of masks). The pattern
// repeats with the least common multiple of shard size and node size, so that a million nodes cost
// as much as a few. Tested by tests/unit/collectives/axis_groups_test.cpp.

#include <cstdint>
#include <vector>

#include "sim/schedule/schedule.hpp"
#include "topologies/topology.hpp"

namespace stepcast {

// Bit l: local GPU l. An NVLink domain has up to 72.
__extension__ using GpuMask = unsigned __int128;
constexpr int most_local_gpus = 128;

// Communicators that lie alike on their nodes.
struct GroupKind {
  int ranks = 1;
  int nodes = 1;
  int node_stride = 1;         // between neighbouring nodes of it
  std::vector<GpuMask> masks;  // distinct, of its nodes
};

// The communicators that share a node.
struct NodeGroups {
  struct Member {
    int kind = 0;  // into AxisGroups::kinds
    GpuMask mask = 0;
  };
  std::vector<Member> members;
};

struct AxisGroups {
  int ranks = 1;  // of each communicator
  std::vector<GroupKind> kinds;
  std::vector<NodeGroups> nodes;  // distinct ones
};

// How the GPUs of a replica lie among the ranks.
struct Siblings {
  int count = 1;  // GPUs a replica; the cluster has mesh x count
  int inner = 1;  // of them neighbours in rank order; a divisor of count
};

AxisGroups groups_of(const Cluster& cluster, Mesh mesh, Axis axis, Siblings siblings = {});

// The communicator of an axis that a GPU of the cluster is in.
std::int64_t group_of(const Cluster& cluster, Mesh mesh, Axis axis, Siblings siblings,
                      std::int64_t gpu);

}  // namespace stepcast
