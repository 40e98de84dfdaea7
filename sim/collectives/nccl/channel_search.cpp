// A channel is a way through all GPUs of the node. Each step along a path takes the channel's speed
// from every link on it, and is possible only where that much is left and the path is no worse than
// the current limit. Between nodes a channel enters by a NIC and leaves by one:
//
//   ring            NIC -> a -> b -> ... -> x -> NIC          (one node: back to a)
//   tree            NIC -> a -> NIC, a -> b -> ... -> x
//   balanced tree   NIC -> a, half back to the NIC from a and half from b
//   NVLS            one head GPU per channel; every GPU at once to and from the switch
//
// Example, DGX A100, 2 nodes: at 24 GB/s each of the 8 NICs carries one ring, so 8 channels of 24.
//
// The order in which GPUs and NICs are tried decides among equals and, since visits are budgeted,
// what is found at all; so it is NCCL's to the letter. Visits are counted, not timed: the result
// does not depend on the machine it runs on. Source: NCCL 2.28.9, src/graph/search.cc.

#include "sim/collectives/nccl/channel_search.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "sim/collectives/nccl/paths.hpp"

namespace stepcast::nccl {
namespace {

bool is_tree(Pattern p) {
  return p == Pattern::balanced_tree || p == Pattern::split_tree || p == Pattern::tree;
}

// Speeds are kept to 1/1000 GB/s so that taking and giving back is exact.
void take(float& left, float gbps) { left = std::round((left - gbps) * 1000.0f) / 1000.0f; }

}  // namespace

ChannelSearch::ChannelSearch(const System& system)
    : system_(system), gpu_count_(static_cast<int>(system.gpus.size())) {
  for (const FlatLink& link : system.links) left_.push_back(link.gbps);
  for (const SystemVertex net : system.nets) {
    net_left_.push_back(static_cast<float>(system.graph[net].gbps));
  }
  used_.assign(gpu_count_, 0);
  for (const SystemVertex gpu : system.gpus) {
    float pcie = 0;
    for (const FlatLink& link : system.links) {
      if (link.from == gpu && link.type == PathType::pix) pcie = link.gbps;
    }
    gpu_pcie_.push_back(pcie);
  }
  nets_in_order_.resize(static_cast<int>(PathType::dis) + 1);
}

int ChannelSearch::run(Trial& trial, Trial& best, int budget) {
  t_ = &trial;
  best_ = &best;
  budget_ = budget;
  t_->channels = 0;
  t_->gpus.resize(static_cast<std::size_t>(64) * gpu_count_);
  t_->nics.resize(128);
  const bool ring = t_->pattern == Pattern::ring;
  const bool nets = !system_.nets.empty();
  back_to_net_ = !nets ? -1 : ring ? gpu_count_ - 1 : t_->pattern == Pattern::split_tree ? 1 : 0;
  back_to_first_ = !nets && ring ? gpu_count_ - 1 : -1;
  add_channel();
  return budget_;
}

const std::vector<int>& ChannelSearch::nets_of(int gpu) {
  auto& by_gpu = nets_in_order_[static_cast<int>(t_->type_inter)];
  if (by_gpu.empty()) {
    for (int g = -1; g < gpu_count_; ++g) {
      by_gpu.push_back(nets_in_order(system_, t_->type_inter, g));
    }
  }
  return by_gpu[gpu + 1];
}

// ---- Moving along paths ---------------------------------------------------------------------

bool ChannelSearch::travel(const Path& path, SystemVertex start, int max_steps, float gbps,
                           int* steps) {
  const bool from_gpu = system_.graph[start].kind == NodeKind::gpu;
  float pcie_gbps = gbps;
  if (path.type == PathType::phb && from_gpu) {
    for (const int id : path.links) {  // GPU to GPU through an Intel host bridge wastes a sixth
      const Node& node = system_.graph[system_.links[id].to];
      if (node.kind == NodeKind::cpu && node.arch == CpuArch::x86 &&
          node.vendor == CpuVendor::intel) {
        pcie_gbps = gbps * 6 / 5;
      }
    }
  }
  for (int step = 0; step < max_steps; ++step) {
    const int id = path.links[step];
    const FlatLink& link = system_.links[id];
    const Node& to = system_.graph[link.to];
    const float forward = link.type == PathType::pix ? pcie_gbps : gbps;
    float backward = 0;
    if (to.kind == NodeKind::gpu && to.compute_capability < 80 && !from_gpu) backward = forward / 8;
    if (to.kind == NodeKind::cpu && to.arch == CpuArch::power && link.type == PathType::nvl) {
      backward += forward;
    }
    if (left_[id] < forward || (backward != 0 && left_[link.reverse] < backward)) {
      *steps = step;
      return false;
    }
    take(left_[id], forward);
    if (backward != 0) take(left_[link.reverse], backward);
  }
  *steps = max_steps;
  return true;
}

// Takes multiple * speed from the path, or gives it back when multiple is negative.
bool ChannelSearch::follow(SystemVertex from, SystemVertex to, float multiple, bool intra) {
  if (from == nowhere) return true;
  const Path& path = system_.path(from, to);
  const PathType limit = intra ? t_->type_intra : t_->type_inter;
  if (path.type >= PathType::dis) return false;
  if (multiple == 1) {
    if (path.type > limit) return false;
    if (is_tree(t_->pattern) && system_.path(to, from).type > limit) return false;
  }
  const float gbps = (intra ? t_->bw_intra : t_->bw_inter) * multiple;
  int steps = 0;
  if (!travel(path, from, path.hops(), gbps, &steps)) {
    const int taken = steps;
    travel(path, from, taken, -gbps, &steps);
    return false;
  }
  t_->hops += multiple * static_cast<float>(path.hops());
  return true;
}

// ---- Channels -------------------------------------------------------------------------------

void ChannelSearch::add_channel() {
  if (!system_.nets.empty()) return start_at_nets();
  if (t_->pattern == Pattern::nvls)
    return try_gpu(0, back_to_net_, Order::free, nowhere, t_->channels);
  if (t_->channels == 0) {
    try_gpu(0, back_to_net_, Order::pci, nowhere, 0);
  } else {
    try_gpu(0, back_to_net_, Order::replay, nowhere, t_->gpus[(t_->channels - 1) * gpu_count_]);
  }
  if (t_->same_channels && t_->channels > 0) return;
  for (int g = 0; g < gpu_count_; ++g) try_gpu(0, back_to_net_, Order::free, nowhere, g);
}

void ChannelSearch::start_at_nets() {
  const int gbps = static_cast<int>(t_->bw_inter);
  const std::vector<int>& nets = nets_of(-1);
  const int count = static_cast<int>(nets.size());
  const int channel = t_->channels;
  for (int i = 0; i < count; ++i) {
    const int n = nets[(channel + i) % count];
    const SystemVertex net = system_.nets[n];
    const Node& port = system_.graph[net];
    if (net_left_[n] < static_cast<float>(gbps)) continue;
    const bool second_of_pair = t_->cross_nic == 2 && (channel & 1) != 0;
    if (second_of_pair && t_->nics[(channel - 1) * 2 + 1] != n) continue;
    t_->nics[channel * 2] = n;
    t_->latency_inter_us = static_cast<float>(port.latency_us);
    const auto use_port = [&](float amount) {
      for (std::size_t other = 0; other < system_.nets.size(); ++other) {
        const Node& o = system_.graph[system_.nets[other]];
        if (o.asic == port.asic && o.port == port.port) net_left_[other] -= amount;
      }
    };
    use_port(static_cast<float>(gbps));
    if (t_->pattern == Pattern::nvls) {
      bool duplicate = port.local_gpu < 0 || channel >= count;
      for (int c = 0; c < channel; ++c) {
        duplicate = duplicate || t_->gpus[c * gpu_count_] == port.local_gpu;
      }
      if (!duplicate) try_gpu(0, back_to_net_, Order::free, net, port.local_gpu);
    } else if (channel > 0 && t_->same_channels) {
      try_gpu(0, back_to_net_, Order::replay, net, t_->gpus[(channel - 1) * gpu_count_]);
    } else {
      if (channel == 0 && system_.nvs.empty()) {
        // The plain order sets a reference; it has a small budget of its own.
        const int saved = budget_;
        budget_ = 1 << 10;
        try_gpu(0, back_to_net_, Order::pci, net, 0);
        budget_ = budget_ == -1 ? -1 : saved;
      }
      if (port.local_gpu >= 0) try_gpu(0, back_to_net_, Order::free, net, port.local_gpu);
      PathType type = PathType::dis;
      const std::vector<int> local = nearest(system_, net, system_.gpus, &type);
      if (type != PathType::dis) {
        for (const int g : local) {
          if (g != port.local_gpu) try_gpu(0, back_to_net_, Order::free, net, g);
        }
      }
    }
    use_port(-static_cast<float>(gbps));
  }
}

void ChannelSearch::try_gpu(int step, int back_to_net, Order order, SystemVertex from, int gpu) {
  const SystemVertex to = system_.gpus[gpu];
  const bool intra = from != nowhere && system_.graph[from].kind == NodeKind::gpu;
  if (!follow(from, to, 1, intra)) return;
  const std::uint64_t bit = std::uint64_t{1} << t_->channels;
  used_[gpu] ^= bit;
  visit(gpu, step, back_to_net, order);
  used_[gpu] ^= bit;
  follow(from, to, -1, intra);
}

void ChannelSearch::visit(int gpu, int step, int back_to_net, Order order) {
  if (budget_ <= 0) return;
  --budget_;
  if (step == gpu_count_) return finish_channel();
  t_->gpus[t_->channels * gpu_count_ + step] = gpu;
  if (step == back_to_net) return leave_by_net(gpu, step, order);
  if (t_->pattern == Pattern::nvls) return try_nvls(gpu);
  if (step < gpu_count_ - 1) {
    std::vector<int> next;
    if (order == Order::pci) {
      next.push_back(step + 1);
    } else if (order == Order::replay) {
      next.push_back(t_->gpus[(t_->channels - 1) * gpu_count_ + step + 1]);
    } else {
      next_gpus(gpu, back_to_net == -1 ? 0 : back_to_net == step + 1 ? 1 : -1, &next);
    }
    for (const int g : next) try_gpu(step + 1, back_to_net, order, system_.gpus[gpu], g);
    return;
  }
  if (step == back_to_first_) {
    const SystemVertex from = system_.gpus[gpu];
    const int first = t_->gpus[t_->channels * gpu_count_];
    const SystemVertex to = system_.gpus[first];
    if (!follow(from, to, 1, true)) return;
    visit(first, step + 1, back_to_net, order);
    follow(from, to, -1, true);
    return;
  }
  visit(gpu, gpu_count_, -1, order);
}

void ChannelSearch::leave_by_net(int gpu, int step, Order order) {
  const int channel = t_->channels;
  const int start = t_->nics[channel * 2];
  const Node& start_port = system_.graph[system_.nets[start]];
  const bool balanced = t_->pattern == Pattern::balanced_tree;
  const SystemVertex from = system_.gpus[gpu];
  for (const int n : nets_of(gpu)) {
    const Node& port = system_.graph[system_.nets[n]];
    if (t_->pattern == Pattern::tree && n != start) continue;  // up and down by one port
    if (t_->pattern == Pattern::ring && t_->cross_nic == 2) {
      if ((channel & 1) != 0 && n != t_->nics[(channel - 1) * 2]) continue;
    } else if (t_->cross_nic == 0 &&
               (port.asic != start_port.asic || port.port != start_port.port)) {
      continue;
    }
    int next_back = -1;
    const float saved = t_->bw_inter;
    if (balanced) {  // half from each of the first two GPUs
      if (step == 0) {
        next_back = 1;
      } else if (n != t_->nics[channel * 2 + 1]) {
        continue;
      }
      t_->bw_inter /= 2;
    }
    const bool possible = follow(from, system_.nets[n], 1, false);
    t_->bw_inter = saved;
    if (!possible) continue;
    t_->nics[channel * 2 + 1] = n;
    visit(gpu, step, next_back, order);
    if (balanced) t_->bw_inter /= 2;
    follow(from, system_.nets[n], -1, false);
    t_->bw_inter = saved;
  }
}

// Every GPU takes part in the channel of one head: speed to and from the switch, the head twice.
void ChannelSearch::try_nvls(int head) {
  const SystemVertex hub = system_.nvs.front();
  const auto share = [&](int g) { return g == head ? 2.0f : 1.0f; };
  int down = 0;
  while (down < gpu_count_ && follow(hub, system_.gpus[down], share(down), true)) ++down;
  if (down == gpu_count_) {
    int up = 0;
    while (up < gpu_count_ && follow(system_.gpus[up], hub, share(up), true)) ++up;
    if (up == gpu_count_) {
      visit(head, gpu_count_, -1, Order::free);
    }
    while (up > 0) {
      --up;
      follow(system_.gpus[up], hub, -share(up), true);
    }
  }
  while (down > 0) {
    --down;
    follow(hub, system_.gpus[down], -share(down), true);
  }
}

void ChannelSearch::finish_channel() {
  ++t_->channels;
  if (better()) {
    *best_ = *t_;
    if (t_->channels == t_->max_channels) budget_ = -1;
  }
  if (t_->channels < t_->max_channels) add_channel();
  --t_->channels;
}

bool ChannelSearch::better() const {
  if (t_->channels < t_->min_channels) return false;
  const float channels = static_cast<float>(t_->channels);
  const float best_channels = static_cast<float>(best_->channels);
  if (t_->pattern == Pattern::nvls) {
    if (t_->channels > best_->channels && t_->channels <= gpu_count_) return true;
    return channels * t_->bw_inter > best_channels * best_->bw_inter;
  }
  const float mine = channels * t_->bw_intra;
  const float theirs = best_channels * best_->bw_intra;
  if (mine != theirs) return mine > theirs;
  return t_->pattern == best_->pattern && t_->cross_nic == best_->cross_nic &&
         t_->hops < best_->hops;
}

// ---- Order of the next GPUs -----------------------------------------------------------------

void ChannelSearch::next_gpus(int gpu, int sort_for_net, std::vector<int>* next) const {
  struct Score {
    int gpu, distance;
    float intra_gbps, inter_gbps, pcie_gbps;
    int intra_hops, inter_hops;
  };
  const SystemVertex from = system_.gpus[gpu];
  const std::uint64_t bit = std::uint64_t{1} << t_->channels;
  std::vector<Score> scores;
  scores.reserve(gpu_count_);
  for (int i = 1; i < gpu_count_; ++i) {
    const int g = (gpu + i) % gpu_count_;
    const Path& path = system_.path(from, system_.gpus[g]);
    if (path.hops() == 0 || (used_[g] & bit) != 0) continue;
    Score score{g, i, path.gbps, 0, 0, path.hops(), 0};
    if (sort_for_net != 0) {
      const SystemVertex net = system_.nets[t_->nics[t_->channels * 2]];
      const Path& by_net = system_.path(net, system_.gpus[g]);
      score.inter_gbps = by_net.gbps;
      score.inter_hops = by_net.hops();
      score.pcie_gbps = gpu_pcie_[g];
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
  bool alike = true;
  if (!scores.empty()) {
    const int whole = static_cast<int>(scores[0].intra_gbps);
    for (std::size_t i = 1; i < scores.size(); ++i) {
      alike = alike && scores[i].intra_gbps == static_cast<float>(whole) &&
              scores[i].intra_hops == scores[0].intra_hops;
    }
  }
  if (sort_for_net == -1 && alike) std::reverse(scores.begin(), scores.end());
  for (const Score& score : scores) next->push_back(score.gpu);
  if (system_.nvs.empty()) return;
  // NVSwitches prefer few partners: neighbours only.
  const int previous = (gpu - 1 + gpu_count_) % gpu_count_;
  const int following = (gpu + 1) % gpu_count_;
  std::vector<int> first{following};
  if (t_->pattern == Pattern::ring) {
    first = {following, previous};
  } else if (t_->pattern == Pattern::balanced_tree || t_->pattern == Pattern::split_tree) {
    first = {previous, following};
  }
  if (previous == following) first.resize(1);
  std::vector<int> neighbours;
  for (const int g : first) {
    if (std::find(next->begin(), next->end(), g) != next->end()) {
      neighbours.insert(neighbours.begin(), g);
    }
  }
  *next = neighbours;
}

}  // namespace stepcast::nccl
