// The facade: communicators of an axis (axis_groups), NCCL's search and choice for each kind of
// them (nccl/), loads of all that share a node (link_load, fabric_load), time.
//
// Everything is made when an axis is first asked for, and graph searches are kept by GPU subset. A
// cluster of 16,384 GPUs costs what one of 16 does. Not thread-safe: one Collectives a thread.

#include "sim/collectives/collective_cost.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <tuple>

#include "base/error.hpp"
#include "sim/collectives/axis_groups.hpp"
#include "sim/collectives/fabric_load.hpp"
#include "sim/collectives/link_load.hpp"
#include "sim/collectives/nccl/search.hpp"
#include "sim/collectives/nccl/tuner.hpp"
#include "sim/collectives/peer_copies.hpp"

namespace stepcast {
namespace {

// The used part of a node, searched.
struct NodeSearch {
  NodeSearch(const nccl::Constants& constants, const Machine& machine, const std::vector<int>& gpus,
             nccl::SystemOptions options)
      : system(machine, gpus, options), result(nccl::search_graphs(constants, system)) {}

  nccl::System system;
  nccl::SearchResult result;
};

}  // namespace

// Few: one or two for each subset of a node's GPUs that an axis has, and each way to set the NICs.
class NodeSearches {
 public:
  struct Key {
    std::string nccl_version;
    GpuMask mask = 0;
    bool across_nodes = false;
    bool gpudirect_rdma = true;
    double nic_gbps = 0;
    nccl::PathLimits limits;
    friend bool operator==(const Key& a, const Key& b) = default;
  };

  const NodeSearch& of(const Key& key, const Machine& machine, const nccl::Constants& constants) {
    for (const auto& [known, search] : searches_) {
      if (known == key) return *search;
    }
    std::vector<int> gpus;
    for (int g = 0; g < most_local_gpus; ++g) {
      if (key.mask >> g & 1) gpus.push_back(g);
    }
    nccl::SystemOptions system;
    system.across_nodes = key.across_nodes;
    system.gpudirect_rdma = key.gpudirect_rdma;
    system.nic_gbps = key.nic_gbps;
    system.limits = key.limits;
    searches_.emplace_back(key, std::make_unique<NodeSearch>(constants, machine, gpus, system));
    return *searches_.back().second;
  }

 private:
  std::vector<std::pair<Key, std::unique_ptr<NodeSearch>>> searches_;
};

std::shared_ptr<NodeSearches> make_node_searches() { return std::make_shared<NodeSearches>(); }

namespace {

// Loads per byte of size; the bytes sent are of one communicator.
struct UnitLoads {
  std::vector<LinkLoad> loads;
  double sent_intra = 0;
  double sent_inter = 0;
  bool staged = false;  // some of it through shared host memory
  double lost = 0;      // seconds that a broken link takes longer than the fullest did
};

struct AxisPlan {
  AxisGroups groups;
  std::vector<nccl::Tuner> tuners;  // by kind
  std::map<std::pair<CollectiveKind, NcclAlgorithm>, UnitLoads> loads;
};

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

}  // namespace

struct Collectives::Impl {
  Cluster cluster;
  Mesh mesh;
  CollectiveOptions options;
  const nccl::Constants& constants;
  std::map<std::pair<GpuMask, bool>, const NodeSearch*> searches;  // of options.searches
  std::optional<AxisPlan> plans[3];
  std::set<std::string> corrected_classes;
  std::optional<BrokenNode> broken;
  using Call = std::tuple<Axis, CollectiveKind, Bytes, Dtype, Reduction>;
  std::map<Call, CollectiveCost> costs;  // answered before

  Impl(const Cluster& c, Mesh m, CollectiveOptions o)
      : cluster(c),
        mesh(m),
        options(std::move(o)),
        constants(nccl::constants(options.nccl_version)) {
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

  const NodeSearch& search(GpuMask mask, bool across) {
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

  nccl::Tuner tuner_of(const GroupKind& kind) {
    const bool across = kind.nodes > 1;
    const NodeSearch& first = search(kind.masks.front(), across);
    nccl::SearchResult result = first.result;
    nccl::CommShape comm;
    comm.ranks = kind.ranks;
    comm.nodes = kind.nodes;
    comm.settings = options.environment.tuner;
    comm.min_compute_capability = comm.max_compute_capability =
        first.system.min_compute_capability();
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

  AxisPlan& plan(Axis axis) {
    std::optional<AxisPlan>& slot = plans[static_cast<int>(axis)];
    if (!slot) {
      AxisPlan made;
      made.groups = groups_of(cluster, mesh, axis, options.siblings);
      for (const GroupKind& kind : made.groups.kinds) made.tuners.push_back(tuner_of(kind));
      slot = std::move(made);
    }
    return *slot;
  }

  const UnitLoads& loads(Axis axis, AxisPlan& plan, CollectiveKind kind, NcclAlgorithm algorithm) {
    const auto found = plan.loads.find({kind, algorithm});
    if (found != plan.loads.end()) return found->second;
    UnitLoads out;
    for (const NodeGroups& node : plan.groups.nodes) add_node(plan, node, kind, algorithm, &out);
    if (broken) add_broken(axis, plan, kind, algorithm, &out);
    return plan.loads[{kind, algorithm}] = std::move(out);
  }

  // Scatter and gather of one process: its GPUs are those of one node.
  CollectiveCost copies(Axis axis, CollectiveKind kind, Bytes bytes) {
    const AxisPlan& all = plan(axis);
    STEPCAST_ASSERT(all.groups.kinds.size() == 1 && all.groups.kinds.front().nodes == 1,
                    "scatter and gather across nodes");
    const NodeSearch& node = search(all.groups.kinds.front().masks.front(), false);
    const PeerCopies copies = peer_copies(node.system, kind, static_cast<double>(bytes));
    CollectiveCost cost;
    cost.choice.channels = cost.choice.tuned_channels = 0;
    cost.seconds = copies.seconds;
    for (const auto& [place, link] : copies.traffic.links) {
      keep_worst(cost.loads, {resource_of(link.type), link.bytes, link.bytes / (link.gbps * 1e9)});
    }
    const int ranks = mesh.size(axis);
    cost.hbm_bytes = ring_volume(kind, ranks) * static_cast<double>(bytes);
    cost.bytes_sent_intra = copies.traffic.gpu_out / ranks;
    cost.busbw_gbps = bus_bandwidth_gbps(kind, bytes, cost.seconds, ranks);
    cost.provenance = copies.traffic.staged ? Provenance::assumed : Provenance::modelled;
    return cost;
  }

  std::string class_of(const nccl::Tuner& tuner, const AxisPlan& plan, const UnitLoads& unit) {
    const bool across = tuner.comm().nodes > 1;
    const NodeSearch& node = search(plan.groups.kinds.front().masks.front(), across);
    return correction_class(tuner.comm(), node.system.has_nvswitch(), unit.staged,
                            cluster.fabric.network);
  }

  static void keep_worst(std::vector<LinkLoad>& loads, const LinkLoad& load) {
    for (LinkLoad& known : loads) {
      if (known.resource != load.resource) continue;
      if (load.seconds > known.seconds) known = load;
      return;
    }
    loads.push_back(load);
  }

  void add_node(AxisPlan& plan, const NodeGroups& node, CollectiveKind kind,
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
      keep_worst(out->loads, {resource_of(link.type), link.bytes, link.bytes / (link.gbps * 1e9)});
    }
    if (fabric.bytes > 0) keep_worst(out->loads, {Name("fabric"), fabric.bytes, fabric.seconds});
  }

  // What communicators of the axis have on the broken node.
  const NodeGroups& groups_on_broken(Axis axis, const AxisPlan& plan) const {
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
  void add_broken(Axis axis, AxisPlan& plan, CollectiveKind kind, NcclAlgorithm algorithm,
                  UnitLoads* out) {
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
        add_traffic(searched.system, graph, nccl::graph_of(tuner.search(), used).channels, kind,
                    used, group.ranks, group.nodes, traffic);
      };
      add(&together);
      if (member.mask >> broken->gpu & 1) add(&own);
    }
    slow_down(cluster.machine, broken->links, &together);
    double before = 0, now = 0;
    for (const LinkLoad& load : out->loads) before = std::max(before, load.seconds);
    for (const auto& [place, link] : own.links) {
      const NodeTraffic::Link& shared = together.links.at(place);
      const double seconds = shared.bytes / (shared.gbps * 1e9);
      keep_worst(out->loads, {resource_of(shared.type), shared.bytes, seconds});
      now = std::max(now, seconds);
    }
    out->lost = std::max(0.0, now - before);
  }
};

Collectives::Collectives(const Cluster& cluster, Mesh mesh, CollectiveOptions options)
    : impl_(std::make_unique<Impl>(cluster, mesh, std::move(options))) {}

Collectives::~Collectives() = default;

void Collectives::break_links(std::optional<BrokenNode> broken) {
  impl_->broken = std::move(broken);
  impl_->costs.clear();
  for (std::optional<AxisPlan>& plan : impl_->plans) {
    if (plan) plan->loads.clear();
  }
}

int Collectives::ranks(Axis axis) const { return impl_->mesh.size(axis); }

int Collectives::nodes(Axis axis) const {
  const AxisGroups groups = groups_of(impl_->cluster, impl_->mesh, axis, impl_->options.siblings);
  int most = 1;
  for (const GroupKind& kind : groups.kinds) most = std::max(most, kind.nodes);
  return most;
}

namespace {

// The most communicators of an axis that share a node.
int siblings_of(const AxisPlan& plan) {
  std::size_t most = 1;
  for (const NodeGroups& node : plan.groups.nodes) most = std::max(most, node.members.size());
  return static_cast<int>(most);
}

// A time that was measured, or fitted to measurements, with `siblings` communicators on the nodes.
// Where more share them, their common links still bound it from below; else what it was measured to
// take is what its links took. `lost` by a broken link comes on top, and is in the loads already.
void use_time(const AxisPlan& plan, Seconds seconds, int siblings, Provenance provenance,
              Seconds lost, CollectiveCost* cost) {
  const bool alone = siblings == siblings_of(plan);
  cost->seconds = seconds;
  cost->provenance = provenance;
  for (LinkLoad& load : cost->loads) {
    if (alone) {
      load.seconds = std::min(load.seconds, cost->seconds + lost);
    } else if (load.seconds - lost > cost->seconds) {
      cost->seconds = load.seconds - lost;
      cost->provenance = worse(cost->provenance, Provenance::modelled);
    }
  }
}

MeasuredShare share_of(const std::vector<MeasuredShare>& measured, double channels) {
  if (channels <= measured.front().channels) return measured.front();
  for (std::size_t i = 1; i < measured.size(); ++i) {
    const MeasuredShare& below = measured[i - 1];
    const MeasuredShare& above = measured[i];
    if (channels > above.channels) continue;
    const double part = (channels - below.channels) / (above.channels - below.channels);
    const bool both = below.memory >= 0 && above.memory >= 0;
    return {channels, below.sm + part * (above.sm - below.sm),
            both ? below.memory + part * (above.memory - below.memory) : -1};
  }
  return measured.back();
}

}  // namespace

CollectiveCost Collectives::cost(Axis axis, CollectiveKind kind, Bytes bytes, Dtype dtype,
                                 Reduction reduction) const {
  const Impl::Call call{axis, kind, bytes, dtype, reduction};
  const auto known = impl_->costs.find(call);
  if (known != impl_->costs.end()) return known->second;
  return impl_->costs[call] = work_out(axis, kind, bytes, dtype, reduction);
}

CollectiveCost Collectives::work_out(Axis axis, CollectiveKind kind, Bytes bytes, Dtype dtype,
                                     Reduction reduction) const {
  STEPCAST_ASSERT(bytes >= 0, "a collective of negative size");
  CollectiveCost cost;
  cost.provenance = Provenance::modelled;
  const int ranks = impl_->mesh.size(axis);
  if (ranks == 1 || bytes == 0) {
    cost.choice.channels = cost.choice.tuned_channels = 0;
    return cost;
  }
  if (kind == CollectiveKind::scatter || kind == CollectiveKind::gather) {
    return impl_->copies(axis, kind, bytes);
  }
  AxisPlan& plan = impl_->plan(axis);
  const nccl::Tuner* slowest = nullptr;
  const GroupKind* group = nullptr;
  nccl::Choice choice;
  for (std::size_t i = 0; i < plan.tuners.size(); ++i) {
    const nccl::Choice c = plan.tuners[i].choose(kind, bytes, dtype, reduction);
    if (slowest != nullptr && c.time_us <= choice.time_us) continue;
    slowest = &plan.tuners[i];
    group = &plan.groups.kinds[i];
    choice = c;
  }
  STEPCAST_ASSERT(slowest != nullptr, "an axis without communicators");
  cost.choice = {choice.algorithm,       choice.protocol,       choice.launch.launched,
                 choice.launch.channels, choice.launch.threads, choice.time_us};
  const double size = static_cast<double>(bytes);
  const double wire = wire_factor(choice.protocol);
  const UnitLoads& unit = impl_->loads(axis, plan, kind, choice.algorithm);
  const Seconds lost = unit.lost * size * wire;
  const double delay_us = fabric_delay_us(impl_->cluster, *group, kind, choice.algorithm);
  cost.seconds = (choice.time_us + delay_us) * 1e-6;
  for (const LinkLoad& load : unit.loads) {
    cost.loads.push_back({load.resource, load.bytes * size * wire, load.seconds * size * wire});
    cost.seconds = std::max(cost.seconds, cost.loads.back().seconds - lost);
  }
  const double wire_us = slowest->wire_us(kind, choice.algorithm, choice.protocol, bytes);
  const double latency_us = choice.time_us - wire_us + delay_us;
  cost.predicted = {kind,
                    choice.algorithm,
                    choice.protocol,
                    ranks,
                    slowest->comm().nodes,
                    latency_us,
                    cost.seconds * 1e6 - latency_us};
  cost.network_class = impl_->class_of(*slowest, plan, unit);
  const Correction* correction =
      impl_->options.corrections ? impl_->options.corrections->find(cost.network_class) : nullptr;
  if (impl_->options.measured) {
    cost.measured = impl_->options.measured->find(kind, ranks, slowest->comm().nodes, bytes,
                                                  siblings_of(plan), dtype);
  }
  if (cost.measured) {
    use_time(plan, cost.measured->seconds, cost.measured->siblings, cost.measured->provenance(),
             lost, &cost);
  } else if (correction != nullptr) {
    const Seconds corrected = corrected_us(*correction, cost.predicted) * 1e-6;
    use_time(plan, corrected, 1, Provenance::modelled, lost, &cost);
    cost.corrected = true;
    impl_->corrected_classes.insert(cost.network_class);
  }
  const int sms = impl_->cluster.machine.gpu.sm_count;
  if (!impl_->options.interference.empty()) {
    const MeasuredShare share =
        share_of(impl_->options.interference, static_cast<double>(choice.launch.launched));
    cost.sm_share = share.sm;
    if (share.memory >= 0) cost.hbm_share = share.memory;
  } else if (sms > 0) {
    cost.sm_share = std::min(1.0, static_cast<double>(choice.launch.launched) / sms);
  }
  // By ring counting each byte sent is read, written into the neighbour's buffer and read or
  // written once more there; flags of LL and LL128 double or lengthen the two buffer accesses.
  cost.hbm_bytes = ring_volume(kind, ranks) * size * (1 + 2 * wire);
  cost.bytes_sent_intra = unit.sent_intra * size;
  cost.bytes_sent_inter = unit.sent_inter * size;
  cost.seconds += lost;
  cost.busbw_gbps = bus_bandwidth_gbps(kind, bytes, cost.seconds, ranks);
  if (cost.measured) return cost;
  if (sms == 0) cost.provenance = Provenance::assumed;  // a GPU nobody named: SMs held not known
  if (unit.staged) cost.provenance = worse(cost.provenance, Provenance::extrapolated);
  // NCCL's latencies between nodes are InfiniBand's.
  const std::string& network = impl_->cluster.fabric.network;
  const bool like_infiniband = network == "infiniband" || network == "roce";
  if (slowest->comm().nodes > 1 && !like_infiniband) {
    cost.provenance = worse(cost.provenance, Provenance::extrapolated);
  }
  return cost;
}

const std::set<std::string>& Collectives::corrected_classes() const {
  return impl_->corrected_classes;
}

std::string Collectives::describe(Axis axis) const {
  if (impl_->mesh.size(axis) == 1) {
    return fmt::format("{}: 1 rank, no communication\n", to_string(axis));
  }
  AxisPlan& plan = impl_->plan(axis);
  std::vector<std::string> lines;  // kinds that NCCL treats alike are one line
  for (const nccl::Tuner& tuner : plan.tuners) {
    const auto graph = [](const nccl::GraphResult& g) {
      return fmt::format("{} x {:g}/{:g} GB/s {}/{}", g.channels, g.bw_intra, g.bw_inter,
                         to_string(g.type_intra), to_string(g.type_inter));
    };
    std::string line =
        fmt::format("{}: {} ranks on {} node{}; ring {}; tree {}", to_string(axis),
                    tuner.comm().ranks, tuner.comm().nodes, tuner.comm().nodes == 1 ? "" : "s",
                    graph(tuner.search().ring), graph(tuner.search().tree));
    if (tuner.search().nvls.channels > 0 && tuner.comm().nvls_supported) {
      line += "; NVLS " + graph(tuner.search().nvls);
    }
    line += fmt::format("; {} channels (NCCL {})\n", tuner.channels(), impl_->constants.version);
    if (std::find(lines.begin(), lines.end(), line) == lines.end()) lines.push_back(line);
  }
  std::string text;
  for (const std::string& line : lines) text += line;
  return text;
}

std::string words(const CollectiveChoice& choice) {
  if (choice.channels == 0) return "peer copies";
  return fmt::format("{}/{} {}ch", to_string(choice.algorithm), to_string(choice.protocol),
                     choice.channels);
}

StepRates Collectives::rates(Axis axis) const {
  STEPCAST_ASSERT(impl_->mesh.size(axis) > 1, "rates of an axis of one rank");
  const nccl::Tuner& tuner = impl_->plan(axis).tuners.front();
  const nccl::GraphResult& ring = tuner.search().ring;
  const auto latency = [&](nccl::LinkClass link) {
    return impl_->constants.hardware_latency_us[nccl::index_of(link)][nccl::index_of(
        NcclAlgorithm::ring)][nccl::index_of(NcclProtocol::simple)];
  };
  StepRates rates;
  rates.nodes = tuner.comm().nodes;
  rates.base_us = impl_->constants.base_latency_us[nccl::index_of(NcclAlgorithm::ring)]
                                                  [nccl::index_of(NcclProtocol::simple)];
  rates.intra_us = latency(ring.type_intra == nccl::PathType::nvl ? nccl::LinkClass::nvlink
                                                                  : nccl::LinkClass::pci);
  rates.inter_us = latency(nccl::LinkClass::net) + 2 * ring.latency_inter_us;
  rates.gpu_gbps = ring.channels * ring.bw_intra;
  rates.node_gbps = ring.channels * ring.bw_inter;
  if (tuner.comm().nodes > 1) {
    // Within a node the search for several nodes is held back by the NICs; alone it is not.
    GpuMask mask = impl_->plan(axis).groups.kinds.front().masks.front();
    if (std::popcount(mask) > 1) {
      const nccl::GraphResult& alone = impl_->search(mask, false).result.ring;
      rates.gpu_gbps = alone.channels * alone.bw_intra;
    }
    const Machine& machine = impl_->cluster.machine;
    rates.nic_gbps = std::min(rates.node_gbps, machine.graph[machine.nics.front()].nic_gbps);
  }
  return rates;
}

double bus_bandwidth_gbps(CollectiveKind kind, Bytes bytes, Seconds seconds, int ranks) {
  if (seconds <= 0) return 0;
  return static_cast<double>(bytes) / seconds * 1e-9 * ring_volume(kind, ranks);
}

}  // namespace stepcast
