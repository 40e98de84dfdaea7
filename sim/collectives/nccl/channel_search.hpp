#pragma once
// The inner part of NCCL's graph search: adds channels one by one at fixed speeds and limits, depth
// first, keeping the best set. See channel_search.cpp; search.cpp decides what is tried.

#include <vector>

#include "sim/collectives/nccl/system.hpp"

namespace stepcast::nccl {

// A set of channels being built, and the limits it is built under.
struct Trial {
  Pattern pattern = Pattern::ring;
  int channels = 0;
  int min_channels = 1;
  int max_channels = 32;
  float bw_intra = 0;  // GB/s per channel
  float bw_inter = 0;
  PathType type_intra = PathType::loc;
  PathType type_inter = PathType::pix;
  bool same_channels = true;
  int cross_nic = 0;
  float hops = 0;
  float latency_inter_us = 0;
  std::vector<int> gpus;  // [channel * gpu count + step]: GPU index
  std::vector<int> nics;  // [channel * 2 + in/out]: net index
};

class ChannelSearch {
 public:
  explicit ChannelSearch(const System& system);

  // Tries to better `best` under the limits of `trial` (whose channels are emptied). budget: node
  // visits that may be made; what is left is returned, -1 when max_channels was reached.
  int run(Trial& trial, Trial& best, int budget);

 private:
  enum class Order { free, pci, replay };

  bool follow(SystemVertex from, SystemVertex to, float multiple, bool intra);
  bool travel(const Path& path, SystemVertex start, int max_steps, float gbps, int* steps);
  void add_channel();
  void start_at_nets();
  void try_gpu(int step, int back_to_net, Order order, SystemVertex from, int gpu);
  void visit(int gpu, int step, int back_to_net, Order order);
  void leave_by_net(int gpu, int step, Order order);
  void try_nvls(int head);
  void finish_channel();
  bool better() const;
  void next_gpus(int gpu, int sort_for_net, std::vector<int>* next) const;
  const std::vector<int>& nets_of(int gpu);

  static constexpr SystemVertex nowhere = static_cast<SystemVertex>(-1);

  const System& system_;
  int gpu_count_;
  std::vector<float> left_;                                   // GB/s left, by link
  std::vector<float> net_left_;                               // by net
  std::vector<std::uint64_t> used_;                           // by GPU: bit k, in channel k
  std::vector<float> gpu_pcie_;                               // by GPU
  std::vector<std::vector<std::vector<int>>> nets_in_order_;  // [type][gpu + 1]
  Trial* t_ = nullptr;
  Trial* best_ = nullptr;
  int budget_ = 0;
  int back_to_net_ = -1;    // the step after which a channel returns to the NIC; -1: never
  int back_to_first_ = -1;  // ... or to its first GPU
};

}  // namespace stepcast::nccl
