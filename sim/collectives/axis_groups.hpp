#pragma once
// The communicators of a mesh axis on a cluster, as few as differ.
//
// Ranks fill nodes in order, gpus_per_node each. Example, 20 ranks on nodes of 8, mesh 2 x 10:
//
//   shard      {0..9} {10..19}: nodes 0 and 1 hold 8 + 2 ranks, nodes 1 and 2 hold 6 + 4
//   replicate  {0,10} {1,11} ... {9,19}: two nodes, one rank each
//
// A communicator is known by the local GPUs it has on its nodes (a set of masks). The pattern
// repeats with the least common multiple of shard size and node size, so that a million nodes cost
// as much as a few. Tested by tests/unit/collectives/axis_groups_test.cpp.

#include <cstdint>
#include <vector>

#include "sim/schedule/schedule.hpp"
#include "topologies/topology.hpp"

namespace stepcast {

using GpuMask = std::uint64_t;  // bit l: local GPU l

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

AxisGroups groups_of(const Cluster& cluster, Mesh mesh, Axis axis);

}  // namespace stepcast
