// Everything is made when an axis is first asked for, and graph searches are kept by GPU subset. A
// cluster of 16,384 GPUs costs what one of 16 does.

#include "sim/collectives/axis_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/error.hpp"
#include "sim/collectives/fabric_load.hpp"
#include "sim/collectives/peer_copies.hpp"

namespace stepcast {

Name resource_of(nccl::PathType type) {
  static const Name nvlink("nvlink");
  static const Name pcie("pcie");
  static const Name nic("nic");
  switch (type) {
    case nccl::PathType::nvl: return nvlink;
    case nccl::PathType::net: return nic;
    default: return pcie;  // PCIe, C2C and the links between CPUs
  }
}

double line_rate_gbps(nccl::PathType type, double nccl_gbps) {
  switch (type) {
    case nccl::PathType::net: return nccl_gbps;
    case nccl::PathType::pix: return nccl_gbps * 63 / 48;  // 16 lanes of Gen5; the others alike
    case nccl::PathType::nvl: return nccl_gbps * 25 / 20;  // NVLink 3; the others less
    default: return 0;
  }
}

void keep_worst(std::vector<LinkLoad>& loads, const LinkLoad& load) {
  for (LinkLoad& known : loads) {
    if (known.resource != load.resource) continue;
    if (load.seconds > known.seconds) known = load;
    return;
  }
  loads.push_back(load);
}

Collectives::Impl::Impl(const Cluster& c, Mesh m, CollectiveOptions o)
    : cluster(c), mesh(m), options(std::move(o)), constants(nccl::constants(options.nccl_version)) {
  STEPCAST_ASSERT(m.world_size() * options.siblings.count == c.world_size,
                  "mesh and cluster differ in size");
  if (c.gpus_per_node > most_local_gpus) {
    throw InputError(
        fmt::format("gpus_per_node: {} is not accepted; accepted: up to {} GPUs of a "
                    "node, or of an NVLink domain",
                    c.gpus_per_node, most_local_gpus));
  }
  if (!options.searches) options.searches = make_node_searches();
}

const NodeSearch& Collectives::Impl::search(GpuMask mask, bool across) {
  const NodeSearch*& slot = searches[{mask, across}];
  if (slot == nullptr) {
    NodeSearches::Key key;
    key.nccl_version = options.nccl_version;
    key.mask = mask;
    key.across_nodes = across;
    key.gpudirect_rdma = cluster.fabric.gpudirect_rdma;
    key.nic_gbps = cluster.fabric.nic_gbps;
    key.limits = options.environment.paths;
    // Without a way between rails no ring may leave by another NIC than it came.
    if (cluster.fabric.kind == FabricKind::rail_only) key.limits.cross_nic = 0;
    slot = &options.searches->of(key, cluster.machine, constants);
  }
  return *slot;
}

nccl::Tuner Collectives::Impl::tuner_of(const GroupKind& kind) {
  const bool across = kind.nodes > 1;
  const NodeSearch& first = search(kind.masks.front(), across);
  nccl::SearchResult result = first.result;
  nccl::CommShape comm;
  comm.ranks = kind.ranks;
  comm.nodes = kind.nodes;
  comm.settings = options.environment.tuner;
  comm.min_compute_capability = comm.max_compute_capability = first.system.min_compute_capability();
  comm.cpu_arch = first.system.arch();
  comm.cpu_vendor = first.system.vendor();
  comm.nvls_supported = first.system.has_nvswitch() && comm.min_compute_capability >= 90;
  for (const GpuMask mask : kind.masks) {
    const int local = std::popcount(mask);
    comm.max_local_ranks = std::max(comm.max_local_ranks, local);
    comm.nvls_supported = comm.nvls_supported && local >= 2;
    if (mask != kind.masks.front()) weaken(result, search(mask, across).result);
  }
  return nccl::Tuner(constants, comm, std::move(result));
}

AxisPlan& Collectives::Impl::plan(Axis axis) {
  std::optional<AxisPlan>& slot = plans[static_cast<int>(axis)];
  if (!slot) {
    AxisPlan made;
    made.groups = groups_of(cluster, mesh, axis, options.siblings);
    for (const GroupKind& kind : made.groups.kinds) made.tuners.push_back(tuner_of(kind));
    slot = std::move(made);
  }
  return *slot;
}

const UnitLoads& Collectives::Impl::loads(Axis axis, AxisPlan& plan, CollectiveKind kind,
                                          NcclAlgorithm algorithm) {
  const auto found = plan.loads.find({kind, algorithm});
  if (found != plan.loads.end()) return found->second;
  UnitLoads out;
  for (const NodeGroups& node : plan.groups.nodes) add_node(plan, node, kind, algorithm, &out);
  if (broken) add_broken(axis, plan, kind, algorithm, &out);
  return plan.loads[{kind, algorithm}] = std::move(out);
}

CollectiveCost Collectives::Impl::copies(Axis axis, CollectiveKind kind, Bytes bytes) {
  const AxisPlan& all = plan(axis);
  STEPCAST_ASSERT(all.groups.kinds.size() == 1 && all.groups.kinds.front().nodes == 1,
                  "scatter and gather across nodes");
  const NodeSearch& node = search(all.groups.kinds.front().masks.front(), false);
  const PeerCopies moved = peer_copies(node.system, kind, static_cast<double>(bytes));
  CollectiveCost cost;
  cost.choice.channels = cost.choice.tuned_channels = 0;
  cost.seconds = moved.seconds;
  for (const auto& [place, link] : moved.traffic.links) {
    keep_worst(cost.loads, {resource_of(link.type), link.bytes, link.bytes / (link.gbps * 1e9)});
  }
  const int ranks = mesh.size(axis);
  cost.hbm_bytes = ring_volume(kind, ranks) * static_cast<double>(bytes);
  cost.bytes_sent_intra = moved.traffic.gpu_out / ranks;
  cost.busbw_gbps = bus_bandwidth_gbps(kind, bytes, cost.seconds, ranks);
  cost.provenance = moved.traffic.staged ? Provenance::assumed : Provenance::modelled;
  return cost;
}

std::string Collectives::Impl::class_of(const nccl::Tuner& tuner, const AxisPlan& plan,
                                        const UnitLoads& unit) {
  const bool across = tuner.comm().nodes > 1;
  const NodeSearch& node = search(plan.groups.kinds.front().masks.front(), across);
  return correction_class(tuner.comm(), node.system.has_nvswitch(), unit.staged,
                          cluster.fabric.network);
}

void Collectives::Impl::add_node(AxisPlan& plan, const NodeGroups& node, CollectiveKind kind,
                                 NcclAlgorithm algorithm, UnitLoads* out) {
  NodeTraffic together;
  FabricLoad fabric;
  for (const NodeGroups::Member& member : node.members) {
    const GroupKind& group = plan.groups.kinds[member.kind];
    const nccl::Tuner& tuner = plan.tuners[member.kind];
    const NodeSearch& own = search(member.mask, group.nodes > 1);
    const bool runs = tuner.model().at(kind, algorithm, NcclProtocol::simple).bandwidth_gbps > 0;
    const NcclAlgorithm used = runs ? algorithm : NcclAlgorithm::ring;
    const int channels = nccl::graph_of(tuner.search(), used).channels;
    NodeTraffic alone;
    for (NodeTraffic* traffic : {&alone, &together}) {
      add_traffic(own.system, nccl::graph_of(own.result, used), channels, kind, used, group.ranks,
                  group.nodes, traffic);
    }
    const double gpus = std::popcount(member.mask);
    out->sent_intra = std::max(out->sent_intra, alone.gpu_out / gpus);
    out->sent_inter = std::max(out->sent_inter, alone.nic_out / gpus);
    const FabricLoad load = fabric_load(cluster, group, used, alone.nic_out);
    fabric.bytes += load.bytes;
    fabric.seconds += load.seconds;
  }
  out->staged = out->staged || together.staged;
  for (const auto& [place, link] : together.links) {
    if (link.staged) {
      out->staged_seconds = std::max(out->staged_seconds, link.bytes / (link.gbps * 1e9));
      continue;
    }
    keep_worst(out->loads, {resource_of(link.type), link.bytes, link.bytes / (link.gbps * 1e9)});
    const double line_rate = line_rate_gbps(link.type, link.gbps);
    if (line_rate > 0) out->least = std::max(out->least, link.bytes / (line_rate * 1e9));
  }
  if (fabric.bytes > 0) {
    keep_worst(out->loads, {Name("fabric"), fabric.bytes, fabric.seconds});
    out->least = std::max(out->least, fabric.seconds);
  }
}

// What communicators of the axis have on the broken node.
const NodeGroups& Collectives::Impl::groups_on_broken(Axis axis, const AxisPlan& plan) const {
  std::map<std::int64_t, GpuMask> masks;
  for (int l = 0; l < cluster.ranks_on(broken->node); ++l) {
    const int rank = broken->node * cluster.gpus_per_node + l;
    const std::int64_t group = group_of(cluster, mesh, axis, options.siblings, rank);
    masks[group] |= GpuMask{1} << l;
  }
  const auto holds = [&](const NodeGroups& node) {
    if (node.members.size() != masks.size()) return false;
    return std::all_of(masks.begin(), masks.end(), [&](const auto& each) {
      return std::any_of(node.members.begin(), node.members.end(),
                         [&](const auto& m) { return m.mask == each.second; });
    });
  };
  const auto found = std::find_if(plan.groups.nodes.begin(), plan.groups.nodes.end(), holds);
  STEPCAST_ASSERT(found != plan.groups.nodes.end(), "a node that the axis does not know");
  return *found;
}

// On the links that the broken GPU's communicator touches, what all of the node load them with.
void Collectives::Impl::add_broken(Axis axis, AxisPlan& plan, CollectiveKind kind,
                                   NcclAlgorithm algorithm, UnitLoads* out) {
  NodeTraffic together, own;
  for (const NodeGroups::Member& member : groups_on_broken(axis, plan).members) {
    const GroupKind& group = plan.groups.kinds[member.kind];
    const nccl::Tuner& tuner = plan.tuners[member.kind];
    const NodeSearch& searched = search(member.mask, group.nodes > 1);
    const bool runs = tuner.model().at(kind, algorithm, NcclProtocol::simple).bandwidth_gbps > 0;
    const NcclAlgorithm used = runs ? algorithm : NcclAlgorithm::ring;
    nccl::GraphResult graph = nccl::graph_of(searched.result, used);
    reroute(searched.system, broken->links, &graph);
    const auto add = [&](NodeTraffic* traffic) {
      add_traffic(searched.system, graph, nccl::graph_of(tuner.search(), used).channels, kind, used,
                  group.ranks, group.nodes, traffic);
    };
    add(&together);
    if (member.mask >> broken->gpu & 1) add(&own);
  }
  slow_down(cluster.machine, broken->links, &together);
  double before = out->staged_seconds, now = 0;
  for (const LinkLoad& load : out->loads) before = std::max(before, load.seconds);
  for (const auto& [place, link] : own.links) {
    const NodeTraffic::Link& shared = together.links.at(place);
    const double seconds = shared.bytes / (shared.gbps * 1e9);
    if (!shared.staged) keep_worst(out->loads, {resource_of(shared.type), shared.bytes, seconds});
    now = std::max(now, seconds);
  }
  out->lost = std::max(0.0, now - before);
}

}  // namespace stepcast
