// How NCCL finds its way through a machine.
//
// From every GPU, NIC port, CPU and switch it walks outwards breadth first; a node keeps the first
// path that reaches it and takes a later one of the same round only when that is wider and shorter.
// Only one hop leads through another GPU, and only over NVLink (type NVB). The type of a path is
// the worst of its links: two PCIe switches make PXB, a CPU makes PHB, two CPUs SYS.
//
// Example, DGX H100: GPU 0 to NIC 0 is PIX (one switch, 48 GB/s); to NIC 1 it is SYS or PHB until
// PXN gives it the way by NVLink to GPU 1 and by GPU 1's switch, 48 GB/s again.
//
// Source: NCCL 2.28.9, src/graph/paths.cc and topo.cc. Cost: bases * links, some 20 us for 8 GPUs.

#include "sim/collectives/nccl/paths.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "sim/collectives/nccl/link_speeds.hpp"

namespace stepcast::nccl {
namespace {

PathType extended_type(const SystemGraph& graph, SystemVertex from, SystemVertex to,
                       const SystemLink& link, const Path& path, int hops) {
  // The network link itself does not count: only the way to the NIC matters.
  PathType type = link.type == PathType::net ? PathType::loc : link.type;
  const NodeKind a = graph[from].kind;
  const NodeKind b = graph[to].kind;
  if (a == NodeKind::pci && b == NodeKind::pci) type = PathType::pxb;
  if (link.type == PathType::pix && (a == NodeKind::cpu || b == NodeKind::cpu)) {
    type = PathType::phb;
  }
  if (a == NodeKind::gpu && path.type == PathType::nvl && type == PathType::nvl && hops > 1) {
    type = PathType::nvb;
  }
  return std::max(path.type, type);
}

// All paths that end at `base`.
std::vector<Path> paths_to(const System& system, SystemVertex base) {
  const SystemGraph& graph = system.graph;
  std::vector<Path> to(boost::num_vertices(graph));
  to[base].gbps = 5000;
  to[base].type = PathType::loc;
  std::vector<SystemVertex> frontier{base};
  while (!frontier.empty()) {
    std::vector<SystemVertex> next;
    for (const SystemVertex node : frontier) {
      for (const auto edge : boost::make_iterator_range(boost::out_edges(node, graph))) {
        const SystemLink& link = graph[edge];
        const SystemVertex rem = boost::target(edge, graph);
        const Path& path = to[node];
        const bool through_gpu = node != base && graph[node].kind == NodeKind::gpu;
        if (through_gpu &&
            (link.type != PathType::nvl || graph[rem].kind != NodeKind::gpu || path.hops() > 1)) {
          continue;
        }
        const float gbps = std::min(path.gbps, static_cast<float>(link.gbps));
        Path& known = to[rem];
        if ((known.gbps != 0 && known.hops() <= path.hops()) || known.gbps >= gbps) continue;
        Path extended;
        extended.links.reserve(path.links.size() + 1);
        extended.links.push_back(system.links[link.id].reverse);
        extended.links.insert(extended.links.end(), path.links.begin(), path.links.end());
        extended.gbps = gbps;
        extended.type = extended_type(graph, node, rem, link, path, extended.hops());
        known = std::move(extended);
        if (std::find(next.begin(), next.end(), rem) == next.end()) next.push_back(rem);
      }
    }
    frontier = std::move(next);
  }
  return to;
}

// The path from `from` to `to` becomes the one by `by`.
void detour(System& system, SystemVertex from, SystemVertex by, SystemVertex to, bool pxn) {
  const Path& first = system.path(from, by);
  const Path& second = system.path(by, to);
  Path joined;
  joined.links = first.links;
  joined.links.insert(joined.links.end(), second.links.begin(), second.links.end());
  joined.gbps = std::min(first.gbps, second.gbps);
  joined.type = pxn ? PathType::pxn : std::max(first.type, second.type);
  system.path(from, to) = std::move(joined);
}

// Grace: a GPU's C2C link and the CPU's PCIe make a way to the NIC as good as switches.
void merge_c2c(System& system) {
  for (int g = 0; g < static_cast<int>(system.gpus.size()); ++g) {
    const int c = system.local_cpu(g);
    if (c < 0) continue;
    const SystemVertex gpu = system.gpus[g];
    for (const SystemVertex net : system.nets) {
      const PathType a = system.path(gpu, system.cpus[c]).type;
      const PathType b = system.path(net, system.cpus[c]).type;
      if (std::max(a, b) != PathType::phb || std::min(a, b) != PathType::c2c) continue;
      Path& out = system.path(gpu, net);
      Path& in = system.path(net, gpu);
      out.type = std::min(out.type, PathType::p2c);
      in.type = std::min(in.type, PathType::p2c);
    }
  }
}

void use_pxn(System& system, int g, int n) {
  if (!system.limits.pxn) return;
  const SystemVertex gpu = system.gpus[g];
  const SystemVertex net = system.nets[n];
  const int relay = local_gpu(system, n);
  if (relay < 0 || relay == g) return;
  const SystemVertex peer = system.gpus[relay];
  const Path& from_peer = system.path(peer, net);
  const Path& own = system.path(gpu, net);
  if (from_peer.type > PathType::p2c || system.path(peer, gpu).type > PathType::nvl) return;
  if (from_peer.gbps > own.gbps || own.type > PathType::pxn) {
    detour(system, gpu, peer, net, true);
  }
}

bool gpudirect(const System& system, int g, int n) {
  const Node& net = system.graph[system.nets[n]];
  const PathType level = system.limits.gdr_level;
  const PathType type = system.path(system.gpus[g], system.nets[n]).type;
  if (level != PathType::dis && type != PathType::pxn && type > level) return false;
  return net.gdr && system.graph[system.gpus[g]].gdr;
}

int mirror_bits(int value, int power_of_two) {
  int out = 0;
  for (int bit = 1, mirrored = power_of_two >> 1; bit < power_of_two; bit <<= 1, mirrored >>= 1) {
    if (value & bit) out += mirrored;
  }
  return out;
}

}  // namespace

double shared_memory_gbps_of(const System& system, int gpu) {
  double pcie = 0;
  for (const auto edge : boost::make_iterator_range(
           boost::out_edges(system.gpus[static_cast<std::size_t>(gpu)], system.graph))) {
    if (system.graph[edge].type == PathType::pix)
      pcie = std::max(pcie, double{system.graph[edge].gbps});
  }
  if (pcie <= 0 || pcie >= local_gbps) pcie = shared_memory_behind_gbps;
  return shared_memory_gbps * pcie / shared_memory_behind_gbps;
}

bool peer_to_peer(const System& system, int a, int b) {
  const Path& path = system.path(system.gpus[a], system.gpus[b]);
  PathType limit = PathType::pxb;
  if (system.arch() == CpuArch::x86 && system.vendor() == CpuVendor::amd &&
      system.gpus.size() <= 2) {
    limit = PathType::sys;
  }
  if (system.limits.peer_level != PathType::dis) limit = system.limits.peer_level;
  if (path.type > limit) return false;
  for (const int link : path.links) {
    const Node& node = system.graph[system.links[link].to];
    if (node.kind == NodeKind::cpu && !node.p2p) return false;
  }
  return true;
}

void find_paths(System& system) {
  system.paths_.assign(boost::num_vertices(system.graph), {});
  for (const auto* bases : {&system.cpus, &system.gpus, &system.nets, &system.nvs}) {
    for (const SystemVertex base : *bases) system.paths_[base] = paths_to(system, base);
  }
  const int gpu_count = static_cast<int>(system.gpus.size());
  for (int g = 0; g < gpu_count; ++g) {
    const int cpu = system.local_cpu(g);
    for (int p = 0; p < gpu_count; ++p) {
      if (p == g || cpu < 0 || peer_to_peer(system, g, p)) continue;
      detour(system, system.gpus[p], system.cpus[cpu], system.gpus[g], false);
    }
  }
  merge_c2c(system);
  const int net_count = static_cast<int>(system.nets.size());
  for (int n = 0; n < net_count; ++n) {
    for (int g = 0; g < gpu_count; ++g) {
      use_pxn(system, g, n);
      const SystemVertex gpu = system.gpus[g];
      const SystemVertex net = system.nets[n];
      if (system.path(gpu, net).type >= PathType::phb || gpudirect(system, g, n)) continue;
      const int cpu = system.local_cpu(g);
      if (cpu < 0) continue;
      detour(system, net, system.cpus[cpu], gpu, false);
      detour(system, gpu, system.cpus[cpu], net, false);
    }
  }
  for (int n = 0; n < net_count; ++n) {
    system.graph[system.nets[n]].local_gpu = local_gpu(system, n);
  }
}

std::vector<int> nearest(const System& system, SystemVertex from,
                         const std::vector<SystemVertex>& candidates, PathType* type) {
  std::vector<int> best;
  float most = 0;
  PathType best_type = PathType::dis;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const Path& path = system.path(from, candidates[i]);
    if (path.gbps > most || (path.gbps == most && path.type < best_type)) {
      most = path.gbps;
      best_type = path.type;
      best.clear();
    }
    if (path.gbps == most && path.type == best_type) best.push_back(static_cast<int>(i));
  }
  if (type != nullptr) *type = best_type;
  return best;
}

namespace {

// The ports that are nearest to a GPU, and how its channels take turns on them.
struct LocalNets {
  LocalNets(const System& system, int gpu) : nets(nearest(system, system.gpus[gpu], system.nets)) {
    STEPCAST_ASSERT(!nets.empty(), "a GPU that reaches no NIC");
    const std::vector<int> sharing = nearest(system, system.nets[nets.front()], system.gpus);
    const int count = static_cast<int>(nets.size());
    const int gpus = static_cast<int>(sharing.size());
    first = system.graph[system.gpus[gpu]].device;
    if ((count & (count - 1)) == 0) first = mirror_bits(first, count);
    turns = (count + gpus - 1) / gpus;
  }

  int of(int channel) const {
    return nets[static_cast<std::size_t>(first + channel % turns) % nets.size()];
  }

  std::vector<int> nets;
  int first = 0;
  int turns = 1;
};

}  // namespace

int local_net(const System& system, int gpu, int channel) {
  return LocalNets(system, gpu).of(channel);
}

int local_gpu(const System& system, int net) {
  constexpr int max_channels = 64;
  const std::vector<int> gpus = nearest(system, system.nets[net], system.gpus);
  std::vector<LocalNets> nets;
  for (const int gpu : gpus) nets.emplace_back(system, gpu);
  for (int channel = 0; channel < max_channels; ++channel) {
    for (std::size_t i = 0; i < gpus.size(); ++i) {
      if (nets[i].of(channel) == net) return gpus[i];
    }
  }
  return -1;
}

std::vector<int> nets_in_order(const System& system, PathType type_inter, int gpu) {
  std::vector<int> order;
  const auto append = [&](int net) {
    if (std::find(order.begin(), order.end(), net) == order.end()) order.push_back(net);
  };
  const int first = gpu < 0 ? 0 : gpu;
  const int last = gpu < 0 ? static_cast<int>(system.gpus.size()) : gpu + 1;
  for (int g = first; g < last; ++g) {
    const LocalNets nets(system, g);
    const int start = nets.of(0);
    append(start);
    for (int channel = 1; nets.of(channel) != start; ++channel) append(nets.of(channel));
  }
  for (int t = 0; t <= static_cast<int>(type_inter); ++t) {
    for (int g = first; g < last; ++g) {
      for (std::size_t n = 0; n < system.nets.size(); ++n) {
        if (system.path(system.gpus[g], system.nets[n]).type == static_cast<PathType>(t)) {
          append(static_cast<int>(n));
        }
      }
    }
  }
  return order;
}

}  // namespace stepcast::nccl
