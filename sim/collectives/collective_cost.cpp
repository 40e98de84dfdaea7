// The facade: what NCCL chooses for a call, what that loads (axis_plan.hpp), how long it takes.
// Not thread-safe: one Collectives a thread.

#include "sim/collectives/collective_cost.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "sim/collectives/axis_plan.hpp"
#include "sim/collectives/fabric_load.hpp"

namespace stepcast {

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

// What no collective of these communicators got out of their links, whatever its size, is no room
// for others beside it: a link is full at the highest rate that was measured on it, not at its
// label. A calibration that reaches 46 of 50 MB/s says that two collectives beside each other get
// 46 together. Of the other links nothing was seen.
void fill_slowest_link(const MeasuredTable& table, CollectiveKind kind, int ranks, int nodes,
                       Bytes bytes, CollectiveCost* cost) {
  const Seconds seconds = cost->measured->seconds;
  double best = 0;  // GB/s, as nccl-tests counts how full the slowest link is
  for (const MeasuredTable::Series& s : table.series()) {
    if (s.ranks != ranks || s.nodes != nodes || s.siblings != cost->measured->siblings) continue;
    for (std::size_t i = 0; i < s.bytes.size(); ++i) {
      best = std::max(best, bus_bandwidth_gbps(s.op, s.bytes[i], s.time_us[i] * 1e-6, ranks));
    }
  }
  if (cost->loads.empty() || best <= 0 || seconds <= 0) return;
  const double full = std::min(1.0, bus_bandwidth_gbps(kind, bytes, seconds, ranks) / best);
  LinkLoad& fullest =
      *std::max_element(cost->loads.begin(), cost->loads.end(),
                        [](const LinkLoad& a, const LinkLoad& b) { return a.seconds < b.seconds; });
  fullest.seconds = std::max(fullest.seconds, full * seconds);
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
  const double formula_us = slowest->wire_us(kind, choice.algorithm, choice.protocol, bytes);
  const double latency_us = choice.time_us - formula_us + delay_us;
  const bool found = !nccl::is_placeholder(nccl::graph_of(slowest->search(), choice.algorithm));
  cost.seconds = (found ? choice.time_us + delay_us : 0) * 1e-6;
  for (const LinkLoad& load : unit.loads) {
    cost.loads.push_back({load.resource, load.bytes * size * wire, load.seconds * size * wire});
    cost.seconds = std::max(cost.seconds, cost.loads.back().seconds - lost);
  }
  if (!found) cost.seconds += latency_us * 1e-6;
  const Seconds staged = unit.staged_seconds * size * wire;
  cost.predicted = {kind,
                    choice.algorithm,
                    choice.protocol,
                    ranks,
                    slowest->comm().nodes,
                    latency_us,
                    cost.seconds * 1e6 - latency_us,
                    staged * 1e6,
                    unit.least * size * wire * 1e6};
  cost.network_class = impl_->class_of(*slowest, plan, unit);
  const Correction* correction =
      impl_->options.corrections ? impl_->options.corrections->find(cost.network_class) : nullptr;
  if (impl_->options.measured) {
    cost.measured = impl_->options.measured->find(kind, ranks, slowest->comm().nodes, bytes,
                                                  siblings_of(plan), dtype);
  }
  if (staged > 0 && (cost.measured || impl_->options.corrections)) {
    keep_worst(cost.loads, {Name("pcie"), unit.staged_seconds * size, staged});
    if (!cost.measured) cost.seconds = std::max(cost.seconds, staged);
  }
  cost.fixed = latency_us * 1e-6;
  if (cost.measured) {
    fill_slowest_link(*impl_->options.measured, kind, ranks, slowest->comm().nodes, bytes, &cost);
    use_time(plan, cost.measured->seconds, cost.measured->siblings, cost.measured->provenance(),
             lost, &cost);
  } else if (correction != nullptr) {
    const Seconds corrected = corrected_us(*correction, cost.predicted) * 1e-6;
    use_time(plan, corrected, 1, Provenance::modelled, lost, &cost);
    cost.fixed = fixed_us(*correction, cost.predicted) * 1e-6;
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
  cost.fixed = std::min(cost.fixed, cost.seconds);
  cost.busbw_gbps = bus_bandwidth_gbps(kind, bytes, cost.seconds, ranks);
  if (cost.measured) return cost;
  if (sms == 0) cost.provenance = Provenance::assumed;  // a GPU nobody named: SMs held not known
  if (unit.staged) cost.provenance = worse(cost.provenance, Provenance::extrapolated);
  // NCCL's latencies between nodes are InfiniBand's.
  const std::string& network = impl_->cluster.fabric.network;
  const bool like_infiniband = network == "infiniband" || network == "roce";
  // Racks of an NVLink domain: published times are up to five times as long (docs/collectives.md).
  const bool racks = cost.network_class == "nvlink-domain";
  if (slowest->comm().nodes > 1 && (!like_infiniband || racks)) {
    cost.provenance = worse(cost.provenance, Provenance::extrapolated);
  }
  return cost;
}

const std::set<std::string>& Collectives::corrected_classes() const {
  return impl_->corrected_classes;
}

double bus_bandwidth_gbps(CollectiveKind kind, Bytes bytes, Seconds seconds, int ranks) {
  if (seconds <= 0) return 0;
  return static_cast<double>(bytes) / seconds * 1e-9 * ring_volume(kind, ranks);
}

}  // namespace stepcast
