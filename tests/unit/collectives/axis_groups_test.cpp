#include "sim/collectives/axis_groups.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>

using namespace stepcast;

namespace {

Cluster cluster_of(int world, int per_node) {
  Cluster cluster;
  cluster.world_size = world;
  cluster.gpus_per_node = per_node;
  cluster.nodes = (world + per_node - 1) / per_node;
  return cluster;
}

// The same by looking at every rank: the set of (ranks, nodes, masks) of all communicators, and the
// set of what lies together on a node.
using Kind = std::tuple<int, int, std::set<GpuMask>>;
using OnNode = std::multiset<std::pair<Kind, GpuMask>>;

struct Plain {
  std::set<Kind> kinds;
  std::set<OnNode> nodes;
};

Plain plain(const Cluster& cluster, Mesh mesh, Axis axis, Siblings siblings = {}) {
  std::map<int, std::map<int, GpuMask>> masks;  // group, node
  std::map<int, int> sizes;
  for (int gpu = 0; gpu < cluster.world_size; ++gpu) {
    // In rank order: inner siblings, data-parallel ranks, the other siblings.
    const int rank = gpu / siblings.inner % mesh.world_size();
    const int sibling =
        gpu % siblings.inner + gpu / (siblings.inner * mesh.world_size()) * siblings.inner;
    const int of_rank = axis == Axis::world   ? 0
                        : axis == Axis::shard ? rank / mesh.shard
                                              : rank % mesh.shard;
    const int group = of_rank * siblings.count + sibling;
    masks[group][cluster.node_of(gpu)] |= GpuMask{1} << cluster.local_of(gpu);
    ++sizes[group];
  }
  std::map<int, Kind> kind_of;
  Plain out;
  for (const auto& [group, by_node] : masks) {
    std::set<GpuMask> distinct;
    for (const auto& entry : by_node) distinct.insert(entry.second);
    kind_of[group] = {sizes[group], static_cast<int>(by_node.size()), distinct};
    out.kinds.insert(kind_of[group]);
  }
  for (int node = 0; node < cluster.nodes; ++node) {
    OnNode on;
    for (const auto& [group, by_node] : masks) {
      const auto found = by_node.find(node);
      if (found != by_node.end()) on.insert({kind_of[group], found->second});
    }
    out.nodes.insert(on);
  }
  return out;
}

Kind kind_of(const GroupKind& k) {
  return {k.ranks, k.nodes, std::set<GpuMask>(k.masks.begin(), k.masks.end())};
}

}  // namespace

TEST_CASE("hybrid sharding on nodes of 8: shard groups fill nodes, replicas sit one to a node") {
  const Cluster cluster = cluster_of(32, 8);
  const AxisGroups shard = groups_of(cluster, {4, 8}, Axis::shard);
  REQUIRE(shard.kinds.size() == 1);
  CHECK(shard.kinds[0].nodes == 1);
  CHECK(shard.kinds[0].masks == std::vector<GpuMask>{0xff});
  const AxisGroups replicate = groups_of(cluster, {4, 8}, Axis::replicate);
  CHECK(replicate.ranks == 4);
  CHECK(replicate.kinds.size() == 8);
  for (const GroupKind& kind : replicate.kinds) CHECK(kind.nodes == 4);
  REQUIRE(replicate.nodes.size() == 1);
  CHECK(replicate.nodes[0].members.size() == 8);
}

TEST_CASE("20 ranks on nodes of 8 leave a node of 4") {
  const AxisGroups world = groups_of(cluster_of(20, 8), {1, 20}, Axis::world);
  REQUIRE(world.kinds.size() == 1);
  CHECK(world.kinds[0].nodes == 3);
  CHECK(world.kinds[0].masks == std::vector<GpuMask>{0xff, 0x0f});
}

TEST_CASE("an axis of one rank has no communicators") {
  CHECK(groups_of(cluster_of(16, 8), {1, 16}, Axis::replicate).kinds.empty());
  CHECK(groups_of(cluster_of(1, 8), {1, 1}, Axis::world).kinds.empty());
}

TEST_CASE("communicators equal those found by looking at every rank, for many meshes") {
  int compared = 0;
  for (const int per_node : {1, 2, 3, 4, 8}) {
    for (int replicate = 1; replicate <= 9; ++replicate) {
      for (const int shard : {1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24}) {
        const Mesh mesh{replicate, shard};
        const Cluster cluster = cluster_of(mesh.world_size(), per_node);
        for (const Axis axis : {Axis::world, Axis::shard, Axis::replicate}) {
          if (mesh.size(axis) == 1) continue;
          CAPTURE(per_node);
          CAPTURE(replicate);
          CAPTURE(shard);
          CAPTURE(to_string(axis));
          const AxisGroups got = groups_of(cluster, mesh, axis);
          const Plain want = plain(cluster, mesh, axis);
          std::set<Kind> kinds;
          for (const GroupKind& kind : got.kinds) kinds.insert(kind_of(kind));
          CHECK(kinds == want.kinds);
          std::set<OnNode> nodes;
          for (const NodeGroups& node : got.nodes) {
            OnNode on;
            for (const auto& m : node.members) on.insert({kind_of(got.kinds[m.kind]), m.mask});
            nodes.insert(on);
          }
          CHECK(nodes == want.nodes);
          ++compared;
        }
      }
    }
  }
  CHECK(compared > 1000);
}

TEST_CASE("eight siblings on nodes of 8: a GPU a node each, one sibling a rail") {
  const AxisGroups groups = groups_of(cluster_of(32, 8), {4, 1}, Axis::world, {8, 8});
  CHECK(groups.ranks == 4);
  REQUIRE(groups.kinds.size() == 8);
  for (const GroupKind& kind : groups.kinds) {
    CHECK(kind.nodes == 4);
    CHECK(kind.masks.size() == 1);
  }
  REQUIRE(groups.nodes.size() == 1);
  CHECK(groups.nodes[0].members.size() == 8);
}

TEST_CASE(
    "two siblings on nodes of 8: four GPUs a node each as neighbours, whole nodes as stages") {
  const AxisGroups inner = groups_of(cluster_of(16, 8), {8, 1}, Axis::world, {2, 2});
  REQUIRE(inner.kinds.size() == 2);
  CHECK(inner.kinds[0].nodes == 2);
  CHECK(inner.kinds[0].masks == std::vector<GpuMask>{0x55});
  CHECK(inner.kinds[1].masks == std::vector<GpuMask>{0xaa});
  const AxisGroups outer = groups_of(cluster_of(16, 8), {8, 1}, Axis::world, {2, 1});
  REQUIRE(outer.kinds.size() == 1);
  CHECK(outer.kinds[0].nodes == 1);
  CHECK(outer.kinds[0].masks == std::vector<GpuMask>{0xff});
}

TEST_CASE("siblings' communicators equal those found by looking at every GPU") {
  int compared = 0;
  for (const int per_node : {1, 3, 4, 8}) {
    for (const Siblings siblings : {Siblings{2, 1}, Siblings{2, 2}, Siblings{3, 3}, Siblings{4, 2},
                                    Siblings{8, 8}, Siblings{8, 2}, Siblings{6, 3}}) {
      for (const Mesh mesh : {Mesh{1, 2}, Mesh{3, 1}, Mesh{4, 1}, Mesh{1, 8}, Mesh{2, 2},
                              Mesh{2, 4}, Mesh{3, 2}, Mesh{5, 4}, Mesh{6, 1}}) {
        const Cluster cluster = cluster_of(mesh.world_size() * siblings.count, per_node);
        for (const Axis axis : {Axis::world, Axis::shard, Axis::replicate}) {
          if (mesh.size(axis) == 1) continue;
          CAPTURE(per_node);
          CAPTURE(siblings.count);
          CAPTURE(siblings.inner);
          CAPTURE(mesh.replicate);
          CAPTURE(mesh.shard);
          CAPTURE(to_string(axis));
          const AxisGroups got = groups_of(cluster, mesh, axis, siblings);
          const Plain want = plain(cluster, mesh, axis, siblings);
          std::set<Kind> kinds;
          for (const GroupKind& kind : got.kinds) kinds.insert(kind_of(kind));
          CHECK(kinds == want.kinds);
          std::set<OnNode> nodes;
          for (const NodeGroups& node : got.nodes) {
            OnNode on;
            for (const auto& m : node.members) on.insert({kind_of(got.kinds[m.kind]), m.mask});
            nodes.insert(on);
          }
          CHECK(nodes == want.nodes);
          ++compared;
        }
      }
    }
  }
  CHECK(compared > 400);
}

TEST_CASE("a million nodes have as many kinds of communicator as four") {
  const Mesh mesh{1 << 20, 8};
  const AxisGroups groups = groups_of(cluster_of(8 << 20, 8), mesh, Axis::replicate);
  CHECK(groups.kinds.size() == 8);
  CHECK(groups.nodes.size() == 1);
  CHECK(groups_of(cluster_of(8 << 20, 8), mesh, Axis::shard).nodes.size() == 1);
}
