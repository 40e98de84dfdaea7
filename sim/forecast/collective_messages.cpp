// The closed form: pipeline_times.hpp, on the loads that the fluid engine has of the links
// (link_load.hpp) for rings, on the trees' own edges for trees. It differs from NCCL's formula
// where that counts what no message does: NCCL has N-1 crossings a round where a message that
// starts just before one meets N; it charges every latency once, be it hidden or not; and its
// tree's first chunk is there at once.

#include "sim/forecast/collective_messages.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/error.hpp"
#include "sim/collectives/link_load.hpp"
#include "sim/collectives/nccl/search.hpp"
#include "sim/forecast/collective_chunks.hpp"
#include "sim/forecast/collective_lowering.hpp"
#include "sim/forecast/pipeline_times.hpp"

namespace stepcast {
namespace {

// What a message costs, docs/engines.md. Each end walks through a list of all messages under way in
// SimGrid, at most one a connection; trees couple more links, whose shares are worked out together.
struct MessageCost {
  Seconds alone, each_connection;
};
constexpr MessageCost of_rings = {2e-6, 5e-9}, of_trees = {8e-6, 15e-9};

// All communicators of an axis.
std::vector<RankGroup> groups_on(const Cluster& cluster, Mesh mesh, Axis axis) {
  std::vector<RankGroup> groups;
  const int size = mesh.size(axis);
  for (int g = 0; g < mesh.world_size() / size; ++g) {
    groups.push_back(group_of(cluster, mesh, axis, axis == Axis::replicate ? g : g * size));
  }
  return groups;
}

Seconds ring_form(const RankGroup& group, const Lowering::Pace& on,
                  const CollectiveQuestion& question, Seconds slowest_link) {
  const int ranks = group.ranks();
  const int nodes = static_cast<int>(group.nodes.size());
  const int local = ranks / nodes;
  const double wire = wire_factor(question.protocol);
  const double channel_bytes = question.bytes * wire / on.graph->channels;
  const ChunkRule chunks = ring_chunks(question.protocol);
  RingPace pace;
  pace.steps = question.kind == CollectiveKind::all_reduce ? 2 * (ranks - 1) : ranks - 1;
  pace.crossings = nodes == 1 ? 0 : (pace.steps + local - 1) / local;
  pace.within = on.within;
  pace.between = on.between;
  pace.bytes = channel_bytes / ranks;
  pace.chunk_bytes = chunks.bytes * wire;
  pace.window = chunks.window;
  const double each = ring_volume(question.kind, ranks) * channel_bytes;
  return ring_seconds(pace, std::max(slowest_link, each / (on.between_gbps * 1e9)));
}

}  // namespace

std::vector<NcclAlgorithm> algorithms_by_messages(const Cluster& cluster, Mesh mesh, Axis axis,
                                                  CollectiveKind kind,
                                                  const CollectiveOptions& options) {
  const bool reduced = kind == CollectiveKind::all_reduce;
  const bool halves = kind == CollectiveKind::all_gather || kind == CollectiveKind::reduce_scatter;
  std::vector<NcclAlgorithm> algorithms;
  if (!reduced && !halves) return algorithms;
  algorithms.push_back(NcclAlgorithm::ring);
  if (reduced) algorithms.push_back(NcclAlgorithm::tree);
  const RankGroup group = group_of(cluster, mesh, axis, 0);
  Lowering lowering(cluster, options);
  const Lowering::Pace nvls = lowering.pace(group, NcclAlgorithm::nvls, NcclProtocol::simple);
  if (nvls.graph->channels == 0 || nvls.system->min_compute_capability() < 90 ||
      group.gpus.size() < 2) {
    return algorithms;
  }
  if (group.nodes.size() == 1) {
    algorithms.push_back(NcclAlgorithm::nvls);
  } else if (reduced) {
    algorithms.push_back(NcclAlgorithm::nvls_tree);
  }
  return algorithms;
}

CollectiveMessages collective_messages(const Cluster& cluster, Mesh mesh, Axis axis,
                                       const CollectiveQuestion& question,
                                       const CollectiveOptions& options) {
  const std::vector<NcclAlgorithm> known =
      algorithms_by_messages(cluster, mesh, axis, question.kind, options);
  if (std::find(known.begin(), known.end(), question.algorithm) == known.end()) {
    std::vector<std::string> names;
    for (const NcclAlgorithm each : known) names.emplace_back(to_string(each));
    throw InputError(fmt::format("the messages engine has no {} by {} here; it has {}",
                                 to_string(question.kind), to_string(question.algorithm),
                                 names.empty() ? "all_reduce, all_gather, reduce_scatter"
                                               : fmt::format("{}", fmt::join(names, ", "))));
  }
  const bool ring = question.algorithm == NcclAlgorithm::ring;
  const bool tree = question.algorithm == NcclAlgorithm::tree;
  if (!ring && !tree && question.protocol != NcclProtocol::simple) {
    throw InputError(fmt::format("{} has protocol Simple alone, not {}",
                                 to_string(question.algorithm), to_string(question.protocol)));
  }
  if (cluster.nodes > 1 && cluster.fabric.oversubscription > 1) {
    throw InputError(
        fmt::format("the messages engine knows no uplinks; oversubscription is {:g}, accepted: 1",
                    cluster.fabric.oversubscription));
  }
  STEPCAST_ASSERT(mesh.size(axis) > 1 && question.bytes > 0, "a collective of nothing");
  CollectiveMessages out;
  Lowering lowering(cluster, options);
  std::map<int, NodeTraffic> traffic;  // by node
  const std::vector<RankGroup> groups = groups_on(cluster, mesh, axis);
  for (const RankGroup& group : groups) {
    const Lowering::Pace on = lowering.pace(group, question.algorithm, question.protocol);
    Lowered made =
        lowering.lower(out.communicators++, group,
                       {question.kind, question.algorithm, question.protocol, question.bytes});
    out.base = made.before;
    out.ranks = group.ranks();
    out.nodes = static_cast<int>(group.nodes.size());
    out.channels = on.graph->channels;
    out.input.collectives.push_back(std::move(made.collective));
    for (const int node : group.nodes) {
      add_traffic(*on.system, *on.graph, out.channels, question.kind, question.algorithm, out.ranks,
                  out.nodes, &traffic[node]);
    }
  }
  out.input.links = lowering.links();
  out.input.connections = lowering.connections();
  const double wire = wire_factor(question.protocol);
  for (const auto& [node, all] : traffic) {
    for (const auto& [place, link] : all.links) {
      out.slowest_link =
          std::max(out.slowest_link, link.bytes * wire * question.bytes / (link.gbps * 1e9));
    }
  }
  out.closed_form = out.base;
  if (ring) {
    const Lowering::Pace on = lowering.pace(groups.front(), question.algorithm, question.protocol);
    out.closed_form += ring_form(groups.front(), on, question, out.slowest_link);
  } else if (question.kind == CollectiveKind::all_reduce) {
    out.closed_form += tree_seconds(out.input);
  } else {
    out.closed_form += chain_seconds(out.input);
  }
  return out;
}

double messages_wall_seconds(const MessagesInput& input) {
  bool trees = false;
  for (const MessageCollective& of : input.collectives) trees = trees || !of.trees.empty();
  const MessageCost& cost = trees ? of_trees : of_rings;
  return static_cast<double>(count_messages(input)) *
         (cost.alone + cost.each_connection * static_cast<double>(input.connections.size()));
}

}  // namespace stepcast
