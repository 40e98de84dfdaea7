#include "sim/collectives/nccl/routes.hpp"

#include <algorithm>

#include "sim/collectives/nccl/paths.hpp"

namespace stepcast::nccl {

Routes::Routes(const System& system)
    : system_(system),
      gpu_count_(static_cast<int>(system.gpus.size())),
      net_count_(static_cast<int>(system.nets.size())) {
  for (const SystemVertex a : system.gpus) {
    for (const SystemVertex b : system.gpus) gpu_gpu_.push_back(route(a, b));
    for (const SystemVertex n : system.nets) gpu_net_.push_back(route(a, n));
    if (system.has_nvswitch()) {
      gpu_nvs_.push_back(route(a, system.nvs.front()));
      nvs_gpu_.push_back(route(system.nvs.front(), a));
    }
  }
  for (const SystemVertex n : system.nets) {
    for (const SystemVertex g : system.gpus) net_gpu_.push_back(route(n, g));
  }
  std::vector<float> pcie_gbps(static_cast<std::size_t>(gpu_count_), 0.0f);  // of each GPU's link
  for (std::size_t g = 0; g < system.gpus.size(); ++g) {
    for (const FlatLink& link : system.links) {
      if (link.from == system.gpus[g] && link.type == PathType::pix) pcie_gbps[g] = link.gbps;
    }
  }
  for (int net = -1; net < net_count_; ++net) {
    for (int gpu = 0; gpu < gpu_count_; ++gpu) preferred_.push_back(sorted(gpu, net, pcie_gbps));
  }
  for (int n = 0; n < net_count_; ++n) {
    const Node& port = system.graph[system.nets[n]];
    std::vector<int> near;
    if (port.local_gpu >= 0) near.push_back(port.local_gpu);
    PathType type = PathType::dis;
    for (const int g : nearest(system, system.nets[n], system.gpus, &type)) {
      if (g != port.local_gpu && type != PathType::dis) near.push_back(g);
    }
    near_gpus_.push_back(near);
    std::vector<int> same;
    for (int o = 0; o < net_count_; ++o) {
      const Node& other = system.graph[system.nets[o]];
      if (other.asic == port.asic && other.port == port.port) same.push_back(o);
    }
    same_port_.push_back(same);
  }
  nets_.resize(static_cast<int>(PathType::dis) + 1);
  for (const auto* routes : {&gpu_gpu_, &gpu_nvs_, &nvs_gpu_}) {
    for (const Route& r : *routes) intra_types_ |= 1u << static_cast<int>(r.type);
  }
  for (const auto* routes : {&gpu_net_, &net_gpu_}) {
    for (const Route& r : *routes) inter_types_ |= 1u << static_cast<int>(r.type);
  }
}

PathType Routes::worst(unsigned types, PathType limit) {
  int t = static_cast<int>(limit);
  while (t > 0 && (types >> t & 1) == 0) --t;
  return static_cast<PathType>(t);
}

int Routes::least_hops(Pattern pattern) const {
  const auto least = [](const std::vector<Route>& routes) {
    int hops = 0;
    for (const Route& r : routes) {
      if (r.hops > 0 && (hops == 0 || r.hops < hops)) hops = r.hops;
    }
    return hops;
  };
  const bool ring = pattern == Pattern::ring;
  const int between = least(gpu_gpu_);
  if (net_count_ == 0) return (ring ? gpu_count_ : gpu_count_ - 1) * between;
  const int returns = pattern == Pattern::balanced_tree ? 2 : 1;
  return least(net_gpu_) + (gpu_count_ - 1) * between + returns * least(gpu_net_);
}

const std::vector<int>& Routes::nets(PathType limit, int gpu) {
  auto& by_gpu = nets_[static_cast<int>(limit)];
  if (by_gpu.empty()) {
    for (int g = -1; g < gpu_count_; ++g) by_gpu.push_back(nets_in_order(system_, limit, g));
  }
  return by_gpu[gpu + 1];
}

Route Routes::route(SystemVertex from, SystemVertex to) {
  const Path& path = system_.path(from, to);
  const bool from_gpu = system_.graph[from].kind == NodeKind::gpu;
  Route r;
  r.hops = path.hops();
  r.gbps = path.gbps;
  r.type = path.type;
  r.type_back = system_.path(to, from).type;
  std::vector<RouteStep> steps;
  for (const int id : path.links) {
    const FlatLink& link = system_.links[id];
    const Node& node = system_.graph[link.to];
    RouteStep step;
    step.link = id;
    step.pcie = link.type == PathType::pix;
    if (node.kind == NodeKind::gpu && node.compute_capability < 80 && !from_gpu) {
      step.reverse = link.reverse;
      step.reverse_share = 1.0f / 8;
    }
    if (node.kind == NodeKind::cpu) {
      if (node.arch == CpuArch::power && link.type == PathType::nvl) {
        step.reverse = link.reverse;
        step.reverse_share = 1;
      }
      r.intel_bridge =
          r.intel_bridge || (path.type == PathType::phb && from_gpu && node.arch == CpuArch::x86 &&
                             node.vendor == CpuVendor::intel);
    }
    steps.push_back(step);
  }
  steps_.push_back(std::move(steps));  // moving the outer vector keeps the inner buffers in place
  r.steps = steps_.back().data();
  return r;
}

std::vector<int> Routes::sorted(int gpu, int net, const std::vector<float>& pcie_gbps) const {
  struct Score {
    int gpu, distance;
    float intra_gbps, inter_gbps, pcie_gbps;
    int intra_hops, inter_hops;
  };
  std::vector<Score> scores;
  for (int i = 1; i < gpu_count_; ++i) {
    const int g = (gpu + i) % gpu_count_;
    const Route& route = gpu_to_gpu(gpu, g);
    if (route.hops == 0) continue;
    Score score{g, i, route.gbps, 0, 0, route.hops, 0};
    if (net >= 0) {
      score.inter_gbps = net_to_gpu(net, g).gbps;
      score.inter_hops = net_to_gpu(net, g).hops;
      score.pcie_gbps = pcie_gbps[static_cast<std::size_t>(g)];
    }
    scores.push_back(score);
  }
  std::stable_sort(scores.begin(), scores.end(), [](const Score& a, const Score& b) {
    // NCCL compares speeds as whole numbers of their difference.
    if (const int d = static_cast<int>(b.inter_gbps - a.inter_gbps)) return d < 0;
    if (const int d = static_cast<int>(b.pcie_gbps - a.pcie_gbps)) return d < 0;
    if (a.inter_hops != b.inter_hops) return a.inter_hops < b.inter_hops;
    if (const int d = static_cast<int>(b.intra_gbps - a.intra_gbps)) return d < 0;
    if (a.intra_hops != b.intra_hops) return a.intra_hops < b.intra_hops;
    return a.distance < b.distance;
  });
  std::vector<int> order;
  for (const Score& score : scores) order.push_back(score.gpu);
  return order;
}

}  // namespace stepcast::nccl
