// NCCL predicts the time of a call as latency + bytes / bandwidth, from constants and the outcome
// of its graph search. This file computes both; tuner.cpp adds the corrections that depend on the
// size and picks the smallest time.
//
// Example, DGX A100, 8 GPUs, ring of 12 channels at 20 GB/s (worked in the test):
//   all-reduce Ring/LL    latency 6.6 + 14 steps * 0.6 = 15.0 us
//                         bus bandwidth min(87.7, 12 * 20 / 2) = 87.7, * 8/14 = 50.1 GB/s
//
// Steps: a ring all-reduce of n ranks takes 2(n-1) steps, of which 2(N-1) cross nodes. A tree goes
// up and down: 2 * (chain within the node + log2 N between nodes).
//
// Source: NCCL 2.28.9, src/graph/tuning.cc. Exact; tests/unit/collectives compares all 4,021 pairs
// of golden/model.csv.

#include "sim/collectives/nccl/model.hpp"

#include <algorithm>
#include <cmath>

#include "sim/collectives/nccl/rules.hpp"

namespace stepcast::nccl {
namespace {

int floor_log2(int value) {
  int log = 0;
  while (value >>= 1) ++log;
  return log;
}

int steps_of(CollectiveKind f, int ranks) {
  switch (f) {
    case CollectiveKind::all_reduce: return 2 * (ranks - 1);
    case CollectiveKind::all_gather:
    case CollectiveKind::reduce_scatter: return ranks - 1;
    case CollectiveKind::broadcast:
    case CollectiveKind::reduce: return ranks;
    case CollectiveKind::scatter:
    case CollectiveKind::gather: break;
  }
  return ranks;
}

bool gathers_or_scatters(CollectiveKind f) {
  return f == CollectiveKind::all_gather || f == CollectiveKind::reduce_scatter;
}

struct Table {
  const Constants& constants;
  const CommShape& comm;
  const SearchResult& search;

  int row() const { return static_cast<int>(generation_of(comm.min_compute_capability)); }
  int column() const { return std::min(comm.nodes, 3) - 1; }
  bool amd() const { return comm.cpu_arch == CpuArch::x86 && comm.cpu_vendor == CpuVendor::amd; }

  // LL is limited by the GPU within a node, by the CPU's PCIe root between nodes.
  double ll_max_gbps() const {
    if (comm.nodes == 1) return constants.ll_max_gbps[row()][column()];
    const bool amd_like = comm.cpu_vendor == CpuVendor::amd || comm.cpu_vendor == CpuVendor::mixed;
    const Generation limit = amd_like ? Generation::ampere : Generation::volta;
    return constants.ll_max_gbps[static_cast<int>(limit)][column()];
  }

  double cap(const PerGeneration& table) const { return table[row()][column()]; }

  double nvls_channel_gbps(CollectiveKind f, NcclAlgorithm a) const {
    const GraphResult& g = search.nvls;
    const double heads = g.channels;
    const double ppn = comm.ranks_per_node();
    double intra = g.bw_intra * constants.nvls_efficiency[row()] * (heads - 1) / heads;
    intra *= f == CollectiveKind::all_reduce ? 2.0 : (ppn - 1) / ppn;
    double inter = g.bw_inter;
    if (a == NcclAlgorithm::nvls_tree && comm.nodes <= 2) inter *= 2;
    double bandwidth = std::min(intra, inter);
    if (a == NcclAlgorithm::nvls_tree) {
      bandwidth = std::min(bandwidth, cap(constants.nvls_tree_per_channel_gbps));
    }
    return bandwidth;
  }

  double bandwidth_gbps(CollectiveKind f, NcclAlgorithm a, NcclProtocol p) const {
    const GraphResult& g = graph_of(search, a);
    const bool nvls = a == NcclAlgorithm::nvls || a == NcclAlgorithm::nvls_tree;
    const double per_channel = nvls              ? nvls_channel_gbps(f, a)
                               : comm.nodes <= 2 ? g.bw_intra
                                                 : g.bw_inter;
    double bus = g.channels * per_channel;
    if (a == NcclAlgorithm::ring) {
      if (p == NcclProtocol::ll) bus = std::min(ll_max_gbps(), bus / 2);  // 4 B data + 4 B flag
      if (p == NcclProtocol::ll128) {  // 120 of 128 bytes are data; 0.92 as measured
        bus = std::min(0.92 * bus, g.channels * cap(constants.ring_ll128_per_channel_gbps));
      }
    } else if (a == NcclAlgorithm::tree) {
      bus = std::min(0.92 * bus, g.channels * cap(constants.tree_per_channel_gbps));
      if (p == NcclProtocol::ll) bus = std::min(bus / 3.8, ll_max_gbps());
      if (p == NcclProtocol::ll128) {
        bus = std::min(bus * (comm.nodes == 1 ? 7.0 / 9 : 120.0 / 128),
                       g.channels * cap(constants.tree_ll128_per_channel_gbps));
      }
      if (g.pattern == Pattern::tree) bus *= 0.85;
    } else if (a == NcclAlgorithm::pat) {
      bus *= 0.75;
    }
    // From bytes on the bus to bytes of the call.
    if (a == NcclAlgorithm::tree) return bus / 2;
    if (gathers_or_scatters(f) && a != NcclAlgorithm::ring) return bus;
    return bus * comm.ranks / steps_of(f, comm.ranks);
  }

  double intra_latency(NcclAlgorithm a, NcclProtocol p) const {
    const bool nvlink = graph_of(search, a).type_intra == PathType::nvl;
    const LinkClass link = nvlink ? LinkClass::nvlink : LinkClass::pci;
    return constants.hardware_latency_us[index_of(link)][index_of(a)][index_of(p)];
  }

  double inter_latency(NcclAlgorithm a, NcclProtocol p) const {
    const NcclAlgorithm from = comm.ranks == comm.nodes ? NcclAlgorithm::tree : a;
    double latency =
        constants.hardware_latency_us[index_of(LinkClass::net)][index_of(from)][index_of(p)];
    const double nic = graph_of(search, a).latency_inter_us;
    return latency + (p == NcclProtocol::simple ? 2 * nic : nic);  // Simple flushes
  }

  double ring_latency(CollectiveKind f, NcclProtocol p) const {
    const int steps = steps_of(f, comm.ranks);
    if (f == CollectiveKind::broadcast || f == CollectiveKind::reduce) {
      const bool same = search.ring.same_channels;
      const LinkClass link = comm.nodes > 1                            ? LinkClass::net
                             : search.ring.type_intra == PathType::nvl ? LinkClass::nvlink
                                                                       : LinkClass::pci;
      const NcclAlgorithm from =
          p == NcclProtocol::simple && !same ? NcclAlgorithm::tree : NcclAlgorithm::ring;
      const double step =
          constants.hardware_latency_us[index_of(link)][index_of(from)][index_of(p)];
      return same ? step : steps * step;
    }
    double intra = intra_latency(NcclAlgorithm::ring, p);
    int steps_between_nodes = 0;
    if (comm.nodes > 1) {
      steps_between_nodes = (f == CollectiveKind::all_reduce ? 2 : 1) * (comm.nodes - 1);
      const double post = amd() ? constants.network_overhead_amd_us : constants.network_overhead_us;
      intra = std::max(intra, p == NcclProtocol::simple ? 3 * post : post);
    }
    return (steps - steps_between_nodes) * intra +
           steps_between_nodes * inter_latency(NcclAlgorithm::ring, p);
  }

  double latency_us(CollectiveKind f, NcclAlgorithm a, NcclProtocol p) const {
    const double base = constants.base_latency_us[index_of(a)][index_of(p)];
    const double log_nodes = floor_log2(comm.nodes);
    switch (a) {
      case NcclAlgorithm::ring: return base + ring_latency(f, p);
      case NcclAlgorithm::tree: {
        const int chain = comm.ranks / comm.nodes;  // whole GPUs, where nodes are uneven
        return base + 2 * ((chain - 1) * intra_latency(a, p) + log_nodes * inter_latency(a, p));
      }
      case NcclAlgorithm::nvls: {
        const double between = comm.nodes > 1 ? inter_latency(a, p) : 0.0;
        return intra_latency(a, p) + between;
      }
      case NcclAlgorithm::nvls_tree:
        return base + intra_latency(a, p) + 2 * log_nodes * inter_latency(a, p);
      case NcclAlgorithm::pat:
        return base + log_nodes * inter_latency(a, p) / 3.5 + 2.8 * comm.ranks;
      case NcclAlgorithm::collnet_direct:
      case NcclAlgorithm::collnet_chain: break;  // never enabled
    }
    return base;
  }
};

}  // namespace

const GraphResult& graph_of(const SearchResult& search, NcclAlgorithm a) {
  switch (a) {
    case NcclAlgorithm::tree:
    case NcclAlgorithm::pat: return search.tree;
    case NcclAlgorithm::nvls:
    case NcclAlgorithm::nvls_tree: return search.nvls;
    default: return search.ring;
  }
}

CostModel make_cost_model(const Constants& constants, const CommShape& comm,
                          const SearchResult& search) {
  CostModel model;
  if (comm.ranks == 1) return model;
  const Table table{constants, comm, search};
  for (int fi = 0; fi < function_count; ++fi) {
    const auto f = static_cast<CollectiveKind>(fi);
    for (int ai = 0; ai < algorithm_count; ++ai) {
      const auto a = static_cast<NcclAlgorithm>(ai);
      for (int pi = 0; pi < protocol_count; ++pi) {
        const auto p = static_cast<NcclProtocol>(pi);
        if (!enabled(constants, comm, search, f, a, p)) continue;
        model.cells[fi][ai][pi] = {table.latency_us(f, a, p), table.bandwidth_gbps(f, a, p)};
      }
    }
  }
  return model;
}

}  // namespace stepcast::nccl
