#pragma once
// The inner part of NCCL's graph search: adds channels one by one at fixed speeds and limits, depth
// first, keeping the best set. See channel_search.cpp; search.cpp decides what is tried.

#include <cstdint>
#include <vector>

#include "sim/collectives/nccl/routes.hpp"
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

  static constexpr int reached_maximum = -1;  // max_channels was reached
  static constexpr int stopped_early = -2;

  // Tries to better `best` under the limits of `trial` (whose channels are emptied). budget: node
  // visits that may be made; what is left is returned, or one of the above. to_the_end: makes all
  // visits even when `best` cannot become better.
  int run(Trial& trial, Trial& best, int budget, bool to_the_end);

  // False where no set of channels under these limits could better `best`: the bandwidth of the
  // NICs (or, on one node, of the GPUs' links) is not enough for as many, and none is shorter.
  bool may_better(const Trial& trial, const Trial& best) const;

  const Routes& routes() const { return routes_; }

 private:
  enum class Order : std::uint8_t { free, pci, replay };
  enum class From : std::uint8_t { nowhere, net, gpu };

  bool follow(const Route& route, float multiple, bool intra);
  bool move(const Route& route, int steps, float gbps, int* done);
  void add_channel();
  void start_at_nets();
  void start_at_net(int net);
  void try_gpu(int step, int back_to_net, Order order, From from, int index, int gpu);
  void visit(int gpu, int step, int back_to_net, Order order);
  void leave_by_net(int gpu, int step, Order order);
  void try_nvls(int head);
  void finish_channel();
  bool better() const;
  double most_channels(const Trial& trial) const;
  int next_gpus(int gpu, int sort_for_net, int* next) const;

  static constexpr int max_gpus = 128;
  static constexpr int max_channels = 64;

  const System& system_;
  Routes routes_;
  int gpu_count_;
  std::vector<float> left_;      // GB/s left, by link
  std::vector<float> net_left_;  // by net
  __extension__ using GpuSet = unsigned __int128;
  std::vector<GpuSet> used_;  // by channel: bit g, GPU g is in it
  Trial* t_ = nullptr;
  Trial* best_ = nullptr;
  int budget_ = 0;
  bool to_the_end_ = false;
  int back_to_net_ = -1;    // the step after which a channel returns to the NIC; -1: never
  int back_to_first_ = -1;  // ... or to its first GPU
};

}  // namespace stepcast::nccl
