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
// does not depend on the machine it runs on. A visit takes some 40 ns.
// Source: NCCL 2.28.9, src/graph/search.cc.

#include "sim/collectives/nccl/channel_search.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"

namespace stepcast::nccl {
namespace {

bool is_tree(Pattern p) {
  return p == Pattern::balanced_tree || p == Pattern::split_tree || p == Pattern::tree;
}

// Speeds are kept to 1/1000 GB/s, halves away from zero, so that taking and giving back agree.
inline void take(float& left, float gbps) {
  const float thousandths = (left - gbps) * 1000.0f;
  left = static_cast<float>(static_cast<int>(thousandths + (thousandths < 0 ? -0.5f : 0.5f))) /
         1000.0f;
}

}  // namespace

ChannelSearch::ChannelSearch(const System& system)
    : system_(system), routes_(system), gpu_count_(static_cast<int>(system.gpus.size())) {
  STEPCAST_ASSERT(gpu_count_ <= max_gpus, "more GPUs in a node than a set holds");
  for (const FlatLink& link : system.links) left_.push_back(link.gbps);
  for (const SystemVertex net : system.nets) {
    net_left_.push_back(static_cast<float>(system.graph[net].gbps));
  }
  used_.assign(max_channels + 1, 0);
}

int ChannelSearch::run(Trial& trial, Trial& best, int budget, bool to_the_end) {
  to_the_end_ = to_the_end;
  t_ = &trial;
  best_ = &best;
  budget_ = budget;
  t_->channels = 0;
  t_->gpus.resize(static_cast<std::size_t>(max_channels) * gpu_count_);
  t_->nics.resize(std::size_t{max_channels} * 2);
  const bool ring = t_->pattern == Pattern::ring;
  const bool nets = routes_.net_count() > 0;
  back_to_net_ = !nets ? -1 : ring ? gpu_count_ - 1 : t_->pattern == Pattern::split_tree ? 1 : 0;
  back_to_first_ = !nets && ring ? gpu_count_ - 1 : -1;
  add_channel();
  return budget_;
}

// An upper bound by bandwidth alone.
double ChannelSearch::most_channels(const Trial& trial) const {
  double most = 0;
  if (trial.pattern == Pattern::nvls) {
    // All channels come down to every GPU, that of its head twice.
    double down = system_.links.empty() ? 0 : 1e9;
    for (int g = 0; g < gpu_count_; ++g) {
      down = std::min(down, double{routes_.switch_to_gpu(g).gbps});
    }
    most = std::floor(down / trial.bw_intra * 1.0001) - 1;
    most = std::min(most, static_cast<double>(gpu_count_));
  } else if (routes_.net_count() > 0) {  // every channel takes its speed from the port it enters by
    for (const SystemVertex net : system_.nets) {
      most += std::floor(system_.graph[net].gbps / trial.bw_inter * 1.0001);
    }
  } else {  // every channel takes its speed from the links of all its GPUs, of a tree's but one
    double out_of_gpus = 0;
    for (const FlatLink& link : system_.links) {
      if (system_.graph[link.from].kind == NodeKind::gpu) out_of_gpus += link.gbps;
    }
    const double senders = trial.pattern == Pattern::ring ? gpu_count_ : gpu_count_ - 1;
    most = std::floor(out_of_gpus / (senders * double{trial.bw_intra}) * 1.0001);
  }
  return std::min(most, static_cast<double>(trial.max_channels));
}

bool ChannelSearch::may_better(const Trial& trial, const Trial& best) const {
  const double most = most_channels(trial);
  if (most < std::max(trial.min_channels, 1)) return false;
  if (trial.pattern == Pattern::nvls) {
    return most > best.channels ||
           most * double{trial.bw_inter} > best.channels * double{best.bw_inter};
  }
  const double mine = most * double{trial.bw_intra};
  const double theirs = best.channels * double{best.bw_intra};
  if (mine != theirs) return mine > theirs;
  return trial.pattern == best.pattern && trial.cross_nic == best.cross_nic &&
         most * routes_.least_hops(trial.pattern) < double{best.hops};
}

// ---- Moving along paths ---------------------------------------------------------------------

bool ChannelSearch::move(const Route& route, int steps, float gbps, int* done) {
  const float pcie_gbps = route.intel_bridge ? gbps * 6 / 5 : gbps;
  for (int i = 0; i < steps; ++i) {
    const RouteStep& step = route.steps[i];
    const float forward = step.pcie ? pcie_gbps : gbps;
    const float backward = forward * step.reverse_share;
    if (left_[step.link] < forward || (step.reverse >= 0 && left_[step.reverse] < backward)) {
      *done = i;
      return false;
    }
    take(left_[step.link], forward);
    if (step.reverse >= 0) take(left_[step.reverse], backward);
  }
  return true;
}

// Takes multiple * speed from the route, or gives it back when multiple is negative.
bool ChannelSearch::follow(const Route& route, float multiple, bool intra) {
  if (route.type >= PathType::dis) return false;
  if (multiple == 1) {
    const PathType limit = intra ? t_->type_intra : t_->type_inter;
    if (route.type > limit) return false;
    if (is_tree(t_->pattern) && route.type_back > limit) return false;
  }
  const float gbps = (intra ? t_->bw_intra : t_->bw_inter) * multiple;
  int done = 0;
  if (!move(route, route.hops, gbps, &done)) {
    int ignored = 0;
    move(route, done, -gbps, &ignored);
    return false;
  }
  t_->hops += multiple * static_cast<float>(route.hops);
  return true;
}

// ---- Channels -------------------------------------------------------------------------------

void ChannelSearch::add_channel() {
  if (routes_.net_count() > 0) return start_at_nets();
  const int channel = t_->channels;
  if (t_->pattern == Pattern::nvls) {
    return try_gpu(0, back_to_net_, Order::free, From::nowhere, -1, channel);
  }
  if (channel == 0) {
    try_gpu(0, back_to_net_, Order::pci, From::nowhere, -1, 0);
  } else {
    const int first = t_->gpus[(channel - 1) * gpu_count_];
    try_gpu(0, back_to_net_, Order::replay, From::nowhere, -1, first);
  }
  if (t_->same_channels && channel > 0) return;
  for (int g = 0; g < gpu_count_; ++g) {
    try_gpu(0, back_to_net_, Order::free, From::nowhere, -1, g);
  }
}

void ChannelSearch::start_at_nets() {
  const auto gbps = static_cast<float>(static_cast<int>(t_->bw_inter));
  const std::vector<int>& nets = routes_.nets(t_->type_inter, -1);
  const int count = static_cast<int>(nets.size());
  const int channel = t_->channels;
  for (int i = 0; i < count; ++i) {
    const int net = nets[(channel + i) % count];
    if (net_left_[net] < gbps) continue;
    const bool second_of_pair = t_->cross_nic == 2 && (channel & 1) != 0;
    if (second_of_pair && t_->nics[(channel - 1) * 2 + 1] != net) continue;
    t_->nics[channel * 2] = net;
    t_->latency_inter_us = static_cast<float>(system_.graph[system_.nets[net]].latency_us);
    for (const int port : routes_.same_port(net)) net_left_[port] -= gbps;
    start_at_net(net);
    for (const int port : routes_.same_port(net)) net_left_[port] += gbps;
  }
}

void ChannelSearch::start_at_net(int net) {
  const int channel = t_->channels;
  if (t_->pattern == Pattern::nvls) {
    const int head = system_.graph[system_.nets[net]].local_gpu;
    if (head < 0 || channel >= routes_.net_count()) return;
    for (int c = 0; c < channel; ++c) {
      if (t_->gpus[c * gpu_count_] == head) return;  // it heads another channel by another NIC
    }
    return try_gpu(0, back_to_net_, Order::free, From::net, net, head);
  }
  if (channel > 0 && t_->same_channels) {
    const int first = t_->gpus[(channel - 1) * gpu_count_];
    return try_gpu(0, back_to_net_, Order::replay, From::net, net, first);
  }
  if (channel == 0 && !system_.has_nvswitch()) {
    // The plain order sets a reference; it has a small budget of its own.
    const int saved = budget_;
    budget_ = 1 << 10;
    try_gpu(0, back_to_net_, Order::pci, From::net, net, 0);
    if (budget_ >= 0) budget_ = saved;
  }
  for (const int g : routes_.near_gpus(net)) {
    try_gpu(0, back_to_net_, Order::free, From::net, net, g);
  }
}

void ChannelSearch::try_gpu(int step, int back_to_net, Order order, From from, int index, int gpu) {
  const bool intra = from == From::gpu;
  const Route* route = from == From::nowhere ? nullptr
                       : intra               ? &routes_.gpu_to_gpu(index, gpu)
                                             : &routes_.net_to_gpu(index, gpu);
  if (route != nullptr && !follow(*route, 1, intra)) return;
  const GpuSet bit = GpuSet{1} << gpu;
  used_[t_->channels] ^= bit;
  visit(gpu, step, back_to_net, order);
  used_[t_->channels] ^= bit;
  if (route != nullptr) follow(*route, -1, intra);
}

void ChannelSearch::visit(int gpu, int step, int back_to_net, Order order) {
  if (budget_ <= 0) return;
  --budget_;
  if (step == gpu_count_) return finish_channel();
  t_->gpus[t_->channels * gpu_count_ + step] = gpu;
  if (step == back_to_net) return leave_by_net(gpu, step, order);
  if (t_->pattern == Pattern::nvls) return try_nvls(gpu);
  if (step < gpu_count_ - 1) {
    int next[max_gpus];
    int count = 1;
    if (order == Order::pci) {
      next[0] = step + 1;
    } else if (order == Order::replay) {
      next[0] = t_->gpus[(t_->channels - 1) * gpu_count_ + step + 1];
    } else {
      count = next_gpus(gpu, back_to_net == -1 ? 0 : back_to_net == step + 1 ? 1 : -1, next);
    }
    for (int i = 0; i < count; ++i) {
      try_gpu(step + 1, back_to_net, order, From::gpu, gpu, next[i]);
    }
    return;
  }
  if (step == back_to_first_) {
    const int first = t_->gpus[t_->channels * gpu_count_];
    const Route& route = routes_.gpu_to_gpu(gpu, first);
    if (!follow(route, 1, true)) return;
    visit(first, step + 1, back_to_net, order);
    follow(route, -1, true);
    return;
  }
  visit(gpu, gpu_count_, -1, order);
}

void ChannelSearch::leave_by_net(int gpu, int step, Order order) {
  const int channel = t_->channels;
  const int start = t_->nics[channel * 2];
  const Node& start_port = system_.graph[system_.nets[start]];
  const bool balanced = t_->pattern == Pattern::balanced_tree;
  for (const int n : routes_.nets(t_->type_inter, gpu)) {
    const Node& port = system_.graph[system_.nets[n]];
    if (t_->pattern == Pattern::tree && n != start) continue;  // up and down by one port
    if (t_->pattern == Pattern::ring && t_->cross_nic == 2) {
      if ((channel & 1) != 0 && n != t_->nics[(channel - 1) * 2]) continue;
    } else if (t_->cross_nic == 0 &&
               (port.asic != start_port.asic || port.port != start_port.port)) {
      continue;
    }
    int next_back = -1;
    const float speed = t_->bw_inter;
    if (balanced) {  // half from each of the first two GPUs
      if (step == 0) {
        next_back = 1;
      } else if (n != t_->nics[channel * 2 + 1]) {
        continue;
      }
      t_->bw_inter /= 2;
    }
    const Route& route = routes_.gpu_to_net(gpu, n);
    const bool possible = follow(route, 1, false);
    t_->bw_inter = speed;
    if (!possible) continue;
    t_->nics[channel * 2 + 1] = n;
    visit(gpu, step, next_back, order);
    if (balanced) t_->bw_inter /= 2;
    follow(route, -1, false);
    t_->bw_inter = speed;
  }
}

// Every GPU takes part in the channel of one head: speed to and from the switch, the head twice.
void ChannelSearch::try_nvls(int head) {
  const auto share = [&](int g) { return g == head ? 2.0f : 1.0f; };
  int down = 0;
  while (down < gpu_count_ && follow(routes_.switch_to_gpu(down), share(down), true)) ++down;
  if (down == gpu_count_) {
    int up = 0;
    while (up < gpu_count_ && follow(routes_.gpu_to_switch(up), share(up), true)) ++up;
    if (up == gpu_count_) visit(head, gpu_count_, -1, Order::free);
    while (up > 0) {
      --up;
      follow(routes_.gpu_to_switch(up), -share(up), true);
    }
  }
  while (down > 0) {
    --down;
    follow(routes_.switch_to_gpu(down), -share(down), true);
  }
}

void ChannelSearch::finish_channel() {
  ++t_->channels;
  if (better()) {
    *best_ = *t_;
    if (t_->channels == t_->max_channels) {
      budget_ = reached_maximum;
    } else if (!to_the_end_ && !may_better(*t_, *best_)) {
      budget_ = stopped_early;
    }
  }
  if (t_->channels < t_->max_channels) add_channel();
  --t_->channels;
}

bool ChannelSearch::better() const {
  if (t_->channels < t_->min_channels) return false;
  const auto channels = static_cast<float>(t_->channels);
  const auto best_channels = static_cast<float>(best_->channels);
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

// Fills `next`, best first, and returns how many. sort_for_net: 1 when the next GPU returns to the
// NIC, -1 when a later one does, 0 when none does.
int ChannelSearch::next_gpus(int gpu, int sort_for_net, int* next) const {
  const GpuSet used = used_[t_->channels];
  const auto free = [&](int g) { return (used >> g & 1) == 0 && routes_.gpu_to_gpu(gpu, g).hops; };
  int count = 0;
  if (system_.has_nvswitch()) {  // NVSwitches prefer few partners: neighbours only
    const int previous = gpu > 0 ? gpu - 1 : gpu_count_ - 1;
    const int following = gpu < gpu_count_ - 1 ? gpu + 1 : 0;
    const bool ring = t_->pattern == Pattern::ring;
    if (ring || t_->pattern == Pattern::balanced_tree || t_->pattern == Pattern::split_tree) {
      const int first = ring ? previous : following;
      const int second = ring ? following : previous;
      if (free(first)) next[count++] = first;
      if (second != first && free(second)) next[count++] = second;
    } else if (free(following)) {
      next[count++] = following;
    }
    return count;
  }
  const int net = sort_for_net != 0 ? t_->nics[t_->channels * 2] : -1;
  for (const int g : routes_.preferred(gpu, net)) {
    if ((used >> g & 1) == 0) next[count++] = g;
  }
  if (sort_for_net != -1) return count;
  bool alike = true;  // then the far end first; NCCL compares with the whole number of the first
  for (int i = 1; i < count; ++i) {
    const Route& a = routes_.gpu_to_gpu(gpu, next[0]);
    const Route& b = routes_.gpu_to_gpu(gpu, next[i]);
    alike = alike && b.gbps == static_cast<float>(static_cast<int>(a.gbps)) && b.hops == a.hops;
  }
  if (alike) std::reverse(next, next + count);
  return count;
}

}  // namespace stepcast::nccl
