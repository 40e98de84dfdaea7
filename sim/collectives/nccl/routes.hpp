#pragma once
// The paths of a system laid out for the inner loop of the search: one flat list of steps a route,
// and every order of preference that does not depend on what was chosen before, sorted once.

#include <cstdint>
#include <vector>

#include "sim/collectives/nccl/system.hpp"

namespace stepcast::nccl {

struct RouteStep {
  int link = -1;
  bool pcie = false;
  // Link back that pays too: an eighth for writes into GPUs before Ampere that a GPU did not send,
  // all of it over NVLink to POWER CPUs. -1: none.
  int reverse = -1;
  float reverse_share = 0;
};

struct Route {
  const RouteStep* steps = nullptr;
  int hops = 0;
  float gbps = 0;
  PathType type = PathType::dis;
  PathType type_back = PathType::dis;
  bool intel_bridge = false;  // a GPU's traffic through an Intel host bridge wastes a sixth of PCIe
};

class Routes {
 public:
  explicit Routes(const System& system);

  int gpu_count() const { return gpu_count_; }
  int net_count() const { return net_count_; }

  const Route& gpu_to_gpu(int a, int b) const { return gpu_gpu_[a * gpu_count_ + b]; }
  const Route& net_to_gpu(int n, int g) const { return net_gpu_[n * gpu_count_ + g]; }
  const Route& gpu_to_net(int g, int n) const { return gpu_net_[g * net_count_ + n]; }
  const Route& gpu_to_switch(int g) const { return gpu_nvs_[g]; }
  const Route& switch_to_gpu(int g) const { return nvs_gpu_[g]; }

  // The other GPUs as a channel at `gpu` prefers them, best first; net: the NIC port the channel
  // came by where nearness to it counts, else -1.
  const std::vector<int>& preferred(int gpu, int net) const {
    return preferred_[(net + 1) * gpu_count_ + gpu];
  }
  // GPUs nearest to a port, its own one first.
  const std::vector<int>& near_gpus(int net) const { return near_gpus_[net]; }
  // Ports that are the same port of the same ASIC, itself included.
  const std::vector<int>& same_port(int net) const { return same_port_[net]; }
  // The worst type of path that exists and is within the limit: limits with the same one are alike.
  PathType worst_intra(PathType limit) const { return worst(intra_types_, limit); }
  PathType worst_inter(PathType limit) const { return worst(inter_types_, limit); }
  // Hops that a channel of this pattern takes at least.
  int least_hops(Pattern pattern) const;

  // Ports in the order they are tried, by limit and GPU (-1: all GPUs).
  const std::vector<int>& nets(PathType limit, int gpu);

 private:
  Route route(SystemVertex from, SystemVertex to);
  std::vector<int> sorted(int gpu, int net, const std::vector<float>& pcie_gbps) const;
  static PathType worst(unsigned types, PathType limit);

  const System& system_;
  int gpu_count_, net_count_;
  unsigned intra_types_ = 0, inter_types_ = 0;  // bit t: a path of type t exists
  std::vector<std::vector<RouteStep>> steps_;
  std::vector<Route> gpu_gpu_, net_gpu_, gpu_net_, gpu_nvs_, nvs_gpu_;
  std::vector<std::vector<int>> preferred_, near_gpus_, same_port_;
  std::vector<std::vector<std::vector<int>>> nets_;  // [limit][gpu + 1]
};

}  // namespace stepcast::nccl
