#include "sim/collectives/axis_groups.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "base/error.hpp"

namespace stepcast {
namespace {

// Positions of an axis: communicator k has ranks first(k), first(k) + step, ... Blocks of
// size x step ranks hold `step` communicators each.
struct Layout {
  std::int64_t world, per_node, size, step;

  std::int64_t first(std::int64_t group) const {
    return group / step * (size * step) + group % step;
  }
  std::int64_t group_of(std::int64_t rank) const {
    return rank / (size * step) * step + rank % step;
  }
  bool one_block() const { return size * step == world; }
};

Layout layout_of(const Cluster& cluster, Mesh mesh, Axis axis, Siblings siblings) {
  STEPCAST_ASSERT(
      static_cast<std::int64_t>(mesh.world_size()) * siblings.count == cluster.world_size,
      "mesh and cluster differ in size");
  STEPCAST_ASSERT(siblings.inner >= 1 && siblings.count % siblings.inner == 0,
                  "neighbours of a replica divide it");
  Layout l{cluster.world_size, cluster.gpus_per_node, mesh.size(axis), siblings.inner};
  if (axis == Axis::replicate && mesh.shard > 1) l.step *= mesh.shard;
  return l;
}

GpuMask mask_on(const Layout& l, std::int64_t group, std::int64_t node) {
  const std::int64_t begin = std::max(node * l.per_node, l.first(group));
  const std::int64_t end =
      std::min((node + 1) * l.per_node, l.first(group) + (l.size - 1) * l.step + 1);
  GpuMask mask = 0;
  std::int64_t rank = l.first(group) + ceil_div(begin - l.first(group), l.step) * l.step;
  for (; rank < end; rank += l.step) mask |= GpuMask{1} << (rank % l.per_node);
  return mask;
}

GroupKind kind_of(const Layout& l, std::int64_t group) {
  GroupKind kind;
  kind.ranks = static_cast<int>(l.size);
  const std::int64_t first_node = l.first(group) / l.per_node;
  const std::int64_t last_node = (l.first(group) + (l.size - 1) * l.step) / l.per_node;
  const std::int64_t stride = std::max<std::int64_t>(1, l.step / l.per_node);
  kind.node_stride = static_cast<int>(stride);
  const auto note = [&](std::int64_t node) {
    const GpuMask mask = mask_on(l, group, node);
    if (mask != 0 && std::find(kind.masks.begin(), kind.masks.end(), mask) == kind.masks.end()) {
      kind.masks.push_back(mask);
    }
  };
  if (l.step >= l.per_node) {  // one rank a node
    kind.nodes = static_cast<int>(l.size);
    for (std::int64_t j = 0; j < std::min(l.size, l.per_node); ++j) {
      note((l.first(group) + j * l.step) / l.per_node);
    }
    return kind;
  }
  // Consecutive nodes; what lies on them repeats after at most `step` nodes.
  kind.nodes = static_cast<int>(last_node - first_node + 1);
  for (std::int64_t n = first_node; n <= std::min(last_node, first_node + l.step); ++n) note(n);
  note(last_node);
  return kind;
}

}  // namespace

std::int64_t group_of(const Cluster& cluster, Mesh mesh, Axis axis, Siblings siblings,
                      std::int64_t gpu) {
  return layout_of(cluster, mesh, axis, siblings).group_of(gpu);
}

AxisGroups groups_of(const Cluster& cluster, Mesh mesh, Axis axis, Siblings siblings) {
  STEPCAST_ASSERT(cluster.gpus_per_node <= most_local_gpus,
                  "more GPUs in a node than a mask holds");
  const Layout l = layout_of(cluster, mesh, axis, siblings);
  AxisGroups out;
  out.ranks = static_cast<int>(l.size);
  if (l.size == 1) return out;
  std::map<std::tuple<int, int, std::vector<GpuMask>>, int> known_kinds;
  std::map<std::int64_t, int> kind_of_place;  // where in a node it starts; where the shard starts
  const auto kind_index = [&](std::int64_t group) {
    const bool by_start = l.step == 1 || l.step >= l.per_node;
    const std::int64_t place = by_start ? l.first(group) % l.per_node : group;
    const auto seen = kind_of_place.find(place);
    if (seen != kind_of_place.end()) return seen->second;
    const GroupKind kind = kind_of(l, group);
    const auto [at, fresh] = known_kinds.try_emplace({kind.ranks, kind.nodes, kind.masks},
                                                     static_cast<int>(out.kinds.size()));
    if (fresh) out.kinds.push_back(kind);
    kind_of_place[place] = at->second;
    return at->second;
  };
  const std::int64_t nodes = ceil_div(l.world, l.per_node);
  const bool strided = l.one_block() && l.step > 1;
  const std::int64_t repeat = std::lcm(strided ? l.step : l.size * l.step, l.per_node) / l.per_node;
  std::map<std::vector<std::pair<int, GpuMask>>, bool> known_nodes;
  const auto note_node = [&](std::int64_t node) {
    std::vector<std::pair<int, GpuMask>> members;
    std::vector<std::int64_t> groups;
    const std::int64_t end = std::min(l.world, (node + 1) * l.per_node);
    for (std::int64_t rank = node * l.per_node; rank < end; ++rank) {
      const std::int64_t group = l.group_of(rank);
      if (std::find(groups.begin(), groups.end(), group) == groups.end()) groups.push_back(group);
    }
    for (const std::int64_t group : groups) {
      members.emplace_back(kind_index(group), mask_on(l, group, node));
    }
    if (!known_nodes.try_emplace(members, true).second) return;
    NodeGroups node_groups;
    for (const auto& member : members) node_groups.members.push_back({member.first, member.second});
    out.nodes.push_back(node_groups);
  };
  for (std::int64_t node = 0; node < std::min(nodes, repeat); ++node) note_node(node);
  note_node(nodes - 1);
  return out;
}

}  // namespace stepcast
