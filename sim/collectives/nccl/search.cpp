// What NCCL tries, in which order. A trial asks channel_search.cpp for as many channels as possible
// at one speed and under one limit of path types.
//
// Pass 1 starts at the fastest speed the machine could have and takes, until something is found:
// different channels instead of equal ones; a simpler tree (Hopper and newer); worse paths within
// the node; worse paths to the NICs; rings that cross NICs; the next lower speed. Even when
// something was found, lower speeds are tried as long as they are above half of it, since more
// channels may make up for it. Fast channels are then split in two of half the speed.
// Pass 2 keeps the number of channels and raises the speed.
//
// Example, DGX A100, one node: GPUs have 240 GB/s of NVLink. 40 GB/s gives 6 rings, 30 GB/s 8, both
// 240 in all; 6 x 40 are found first and split into 12 x 20.
//
// Source: NCCL 2.28.9, src/graph/search.cc. Cost: at most 2^19 visits a pattern; 0.1 to 20 ms.

#include "sim/collectives/nccl/search.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "sim/collectives/nccl/channel_search.hpp"
#include "sim/collectives/nccl/graph_file.hpp"
#include "sim/collectives/nccl/paths.hpp"

namespace stepcast::nccl {
namespace {

constexpr int budget_per_trial = 1 << 14;
constexpr int budget_same_channels = 1 << 8;
constexpr std::int64_t budget_overall = 1 << 19;
constexpr int max_search_channels = 32;
constexpr float placeholder_gbps = 0.1f;

PathType next(PathType type) { return static_cast<PathType>(static_cast<int>(type) + 1); }

struct TypeRange {
  PathType best, worst;
};

TypeRange types_to(const System& system, const std::vector<SystemVertex>& targets) {
  TypeRange range{PathType::sys, PathType::loc};
  for (const SystemVertex gpu : system.gpus) {
    for (const SystemVertex to : targets) {
      if (to == gpu) continue;
      range.best = std::min(range.best, system.path(gpu, to).type);
      range.worst = std::max(range.worst, system.path(gpu, to).type);
    }
  }
  return range;
}

// Two groups of GPUs with NVLink inside and something slower between them.
bool two_nvlink_islands(const System& system) {
  const int count = static_cast<int>(system.gpus.size());
  std::vector<int> island(count);
  for (int g = 0; g < count; ++g) island[g] = g;
  for (int g = 0; g < count; ++g) {
    for (int p = g + 1; p < count; ++p) {
      if (system.path(system.gpus[g], system.gpus[p]).type == PathType::nvl) island[p] = island[g];
    }
  }
  int islands = 0;
  for (int g = 0; g < count; ++g) {
    islands += island[g] == g && std::count(island.begin(), island.end(), g) > 1;
  }
  return islands == 2;
}

class PatternSearch {
 public:
  PatternSearch(const Constants& constants, const System& system, Effort effort)
      : system_(system),
        channels_(system),
        cc_(system.min_compute_capability()),
        every_visit_(effort == Effort::every_visit) {
    const int row = cc_ >= 100 ? 2 : cc_ >= 90 ? 1 : 0;
    speeds_ = across() ? constants.search_speeds_inter[row] : constants.search_speeds_intra[row];
  }

  Trial run(Pattern pattern, int min_channels, int max_channels) {
    best_ = Trial{};
    best_.pattern = pattern;
    best_.min_channels = min_channels;
    best_.max_channels = max_channels;
    if (pattern == Pattern::nvls) {
      if (!system_.has_nvswitch() || cc_ < 90 || gpu_count() == 1) return best_;
      best_.max_channels = std::min({max_channels, gpu_count(), most_nvls_heads});
      if (!across()) best_.min_channels = best_.max_channels;
    }
    if (gpu_count() == 1 && pattern != Pattern::ring) best_.pattern = Pattern::tree;
    if (pattern == Pattern::ring && two_nvlink_islands(system_) && best_.min_channels == 1) {
      best_.min_channels = std::min(2, best_.max_channels);
    }
    set_limits(pattern);
    first_pass();
    duplicate();
    second_pass();
    if (best_.channels == 0 && pattern != Pattern::nvls) fall_back();
    return best_;
  }

 private:
  int gpu_count() const { return static_cast<int>(system_.gpus.size()); }
  bool across() const { return !system_.nets.empty(); }

  void set_limits(Pattern pattern) {
    types_intra_ = {PathType::loc, PathType::sys};
    types_inter_ = {PathType::pix, PathType::sys};
    if (gpu_count() > 1) types_intra_ = types_to(system_, system_.gpus);
    if (across()) types_inter_ = types_to(system_, system_.nets);
    same_channels_ = pattern != Pattern::nvls;
    best_.type_intra = types_intra_.best;
    best_.type_inter = types_inter_.best;
    best_.same_channels = same_channels_;
    // Rings and balanced trees may leave by another NIC than they came (NCCL_CROSS_NIC = 2).
    may_cross_nic_ = system_.nets.size() > 1 && system_.limits.cross_nic == 2 &&
                     (best_.pattern == Pattern::ring || best_.pattern == Pattern::balanced_tree ||
                      best_.pattern == Pattern::split_tree);
    total_gbps_ = system_.total_gbps;
    if (gpu_count() > 1 && best_.pattern != Pattern::ring) {
      total_gbps_ *= gpu_count() / (gpu_count() - 1.0);
    }
  }

  static int budget_of(const Trial& trial) {
    return trial.same_channels ? budget_same_channels : budget_per_trial;
  }

  // Trials with the same key make the same visits.
  using Key = std::tuple<Pattern, float, float, PathType, PathType, bool, int>;

  Key key_of(const Trial& t) const {
    return {t.pattern,
            t.bw_intra,
            t.bw_inter,
            channels_.routes().worst_intra(t.type_intra),
            channels_.routes().worst_inter(t.type_inter),
            t.same_channels,
            t.cross_nic};
  }

  // Visits left, reached_maximum, or stopped_early. A trial that cannot better what was found is
  // put off: all it could change is how much of the overall budget is left, and mostly that does
  // not matter in the end. Until then it counts as if it had used its whole budget.
  int attempt(Trial& trial) {
    overall_ -= budget_of(trial);
    if (every_visit_) return channels_.run(trial, best_, budget_of(trial), true);
    const auto known = left_of_.find(key_of(trial));
    if (known != left_of_.end()) return known->second;
    int left = ChannelSearch::stopped_early;
    if (best_.channels == 0 || channels_.may_better(trial, best_)) {
      left = channels_.run(trial, best_, budget_of(trial), false);
    }
    if (left != ChannelSearch::stopped_early) {
      left_of_[key_of(trial)] = left;
    } else if (!trial.same_channels) {  // of equal channels nothing is given back
      put_off_.push_back(trial);
    }
    return left;
  }

  // The overall budget seems used up: look at what the trials put off really used.
  bool exhausted() {
    while (!put_off_.empty() && overall_ < 0) {
      Trial& trial = put_off_.back();
      const auto known = left_of_.find(key_of(trial));
      if (known == left_of_.end()) {
        Trial nothing_is_better = best_;
        const int left = channels_.run(trial, nothing_is_better, budget_per_trial, true);
        left_of_[key_of(trial)] = std::max(left, 0);
      }
      overall_ += left_of_[key_of(trial)];
      put_off_.pop_back();
    }
    return overall_ < 0;
  }

  bool saturated() const {
    return static_cast<float>(best_.channels) * best_.bw_inter >=
           static_cast<float>(system_.total_gbps);
  }

  // No trial that may still come in pass 1 can better what was found, from this speed on.
  bool hopeless(Trial trial, std::size_t speed) const {
    if (best_.channels == 0 || every_visit_) return false;
    for (std::size_t s = speed; s < speeds_.size(); ++s) {
      if (s > speed && speeds_[s] / double{best_.bw_inter} <= .49) break;
      trial.bw_intra = trial.bw_inter = static_cast<float>(speeds_[s]);
      for (const Pattern pattern : {best_.pattern, Pattern::tree}) {
        if (pattern != best_.pattern && best_.pattern != Pattern::balanced_tree) continue;
        for (const int cross_nic : {0, 2}) {
          trial.pattern = pattern;
          trial.cross_nic = cross_nic;
          if (channels_.may_better(trial, best_)) return false;
        }
      }
    }
    return true;
  }

  void first_pass() {
    Trial trial = best_;
    const int last = static_cast<int>(speeds_.size()) - 1;
    int speed = 0;
    while (speed < last && (speeds_[speed] > system_.max_gbps ||
                            speeds_[speed] * trial.min_channels > total_gbps_)) {
      ++speed;
    }
    trial.bw_intra = trial.bw_inter = static_cast<float>(speeds_[speed]);
    const bool amd = system_.arch() == CpuArch::x86 && system_.vendor() == CpuVendor::amd;
    overall_ = budget_overall;
    left_of_.clear();
    put_off_.clear();
    while (true) {
      const int left = attempt(trial);
      if (left == ChannelSearch::reached_maximum || saturated()) return;
      if (hopeless(trial, static_cast<std::size_t>(speed))) return;
      if (trial.same_channels && !(amd && trial.type_intra == PathType::sys)) {
        trial.same_channels = false;
        continue;
      }
      trial.same_channels = same_channels_;
      overall_ += std::max(left, 0);
      if (overall_ < 0 && best_.channels > 0 && exhausted()) return;
      if (cc_ >= 90 && trial.pattern == Pattern::balanced_tree) {
        trial.pattern = Pattern::tree;
        continue;
      }
      trial.pattern = best_.pattern;
      const PathType worst_intra = across() ? trial.type_inter : types_intra_.worst;
      if (trial.type_intra < worst_intra &&
          (best_.channels == 0 || trial.type_intra < best_.type_intra)) {
        trial.type_intra = next(trial.type_intra);
        if (trial.type_intra < PathType::dis) continue;
      }
      trial.type_intra = types_intra_.best;
      if (across() && trial.type_inter < types_inter_.worst &&
          (best_.channels == 0 || trial.type_inter < best_.type_inter ||
           trial.type_inter < PathType::pxn)) {
        trial.type_inter = next(trial.type_inter);
        if (trial.type_inter < PathType::dis) continue;
      }
      trial.type_inter = types_inter_.best;
      if (may_cross_nic_ && trial.cross_nic == 0 &&
          (best_.pattern == Pattern::ring || best_.pattern == Pattern::balanced_tree)) {
        trial.cross_nic = 2;
        continue;
      }
      trial.cross_nic = 0;
      if (speed < last &&
          (best_.channels == 0 || static_cast<float>(speeds_[speed + 1]) / best_.bw_inter > .49)) {
        ++speed;
        trial.bw_intra = trial.bw_inter = static_cast<float>(speeds_[speed]);
        continue;
      }
      return;
    }
  }

  // Two slow channels keep more SMs busy than a fast one.
  void duplicate() {
    if (best_.channels == 0 || best_.pattern == Pattern::nvls || best_.bw_intra < 25.0f) return;
    if (cc_ > 80 && best_.bw_intra < 50.0f && best_.channels > 4) return;
    const int many = std::min(best_.channels * 2, best_.max_channels);
    const int parts = (many + best_.channels - 1) / best_.channels;
    const auto split = static_cast<float>(parts);
    for (int c = best_.channels; c < many; ++c) {
      const int from = c - best_.channels;
      std::copy_n(best_.gpus.begin() + from * gpu_count(), gpu_count(),
                  best_.gpus.begin() + c * gpu_count());
      std::copy_n(best_.nics.begin() + from * 2, 2, best_.nics.begin() + c * 2);
    }
    best_.bw_intra /= split;
    best_.bw_inter /= split;
    best_.channels = many;
  }

  void second_pass() {
    const int last = static_cast<int>(speeds_.size()) - 1;
    int speed = 0;
    while (speed<last&& static_cast<float>(speeds_[speed])> best_.bw_inter) ++speed;
    Trial trial = best_;
    trial.bw_intra = trial.bw_inter = static_cast<float>(speeds_[speed]);
    trial.min_channels = best_.channels;
    int left = -1;
    while (left != 0 && speed > 0) {
      if (best_.pattern == Pattern::ring) {
        trial.bw_intra = trial.bw_inter = static_cast<float>(speeds_[--speed]);
      } else if (best_.pattern == Pattern::nvls && trial.bw_inter == best_.bw_inter &&
                 trial.bw_inter < trial.bw_intra * 2) {
        trial.min_channels = trial.max_channels = best_.channels;
        trial.bw_inter = static_cast<float>(speeds_[--speed]);
      } else if (trial.bw_intra == best_.bw_intra && trial.bw_intra < trial.bw_inter * 2) {
        trial.bw_intra = static_cast<float>(speeds_[--speed]);
      } else {
        return;
      }
      left = channels_.run(trial, best_, budget_of(trial), true);
    }
  }

  void fall_back() {  // rank order, and a speed that says so
    best_.channels = 1;
    best_.bw_intra = best_.bw_inter = placeholder_gbps;
    best_.type_intra = best_.type_inter = PathType::sys;
    best_.gpus.resize(gpu_count());
    for (int g = 0; g < gpu_count(); ++g) best_.gpus[g] = g;
    best_.nics = {0, 0};
  }

  const System& system_;
  ChannelSearch channels_;
  int cc_;
  bool every_visit_;
  std::vector<double> speeds_;
  TypeRange types_intra_{}, types_inter_{};
  bool same_channels_ = true;
  bool may_cross_nic_ = false;
  double total_gbps_ = 0;
  std::int64_t overall_ = 0;    // node visits left in pass 1
  std::map<Key, int> left_of_;  // visits left by the trials that were made
  std::vector<Trial> put_off_;
  Trial best_;
};

GraphResult result_of(const Trial& trial, const System& system) {
  GraphResult r;
  r.pattern = trial.pattern;
  r.channels = trial.channels;
  r.bw_intra = trial.bw_intra;
  r.bw_inter = trial.bw_inter;
  r.type_intra = trial.type_intra;
  r.type_inter = trial.type_inter;
  r.same_channels = trial.same_channels;
  r.cross_nic = trial.cross_nic;
  r.latency_inter_us = trial.latency_inter_us;
  const int count = static_cast<int>(system.gpus.size());
  for (int c = 0; c < trial.channels; ++c) {
    Channel channel;
    const int visited = trial.pattern == Pattern::nvls ? 1 : count;  // NVLS: the head
    for (int i = 0; i < visited; ++i) channel.gpus.push_back(trial.gpus[c * count + i]);
    if (!system.nets.empty()) {
      channel.nic_in = trial.nics[c * 2];
      channel.nic_out = trial.nics[c * 2 + 1];
    }
    r.orders.push_back(channel);
  }
  return r;
}

void weaken(GraphResult& a, const GraphResult& b) {
  a.channels = std::min(a.channels, b.channels);
  a.same_channels = a.same_channels && b.same_channels;
  a.bw_intra = std::min(a.bw_intra, b.bw_intra);
  a.bw_inter = std::min(a.bw_inter, b.bw_inter);
  a.type_intra = std::max(a.type_intra, b.type_intra);
  a.type_inter = std::max(a.type_inter, b.type_inter);
  a.cross_nic = std::max(a.cross_nic, b.cross_nic);
  a.latency_inter_us = std::max(a.latency_inter_us, b.latency_inter_us);
  if (b.pattern == Pattern::tree) a.pattern = Pattern::tree;
  a.orders.resize(std::min<std::size_t>(a.orders.size(), a.channels));
}

}  // namespace

bool is_placeholder(const GraphResult& graph) {
  return graph.channels == 1 && graph.bw_intra == placeholder_gbps;
}

SearchResult search_graphs(const Constants& constants, const System& system, Effort effort) {
  PatternSearch search(constants, system, effort);
  SearchResult result;
  const auto graph = [&](Pattern pattern, int min_channels, int max_channels) {
    if (std::optional<GraphResult> given = given_graph(system, pattern)) return *std::move(given);
    return result_of(search.run(pattern, min_channels, max_channels), system);
  };
  result.ring = graph(Pattern::ring, 1, max_search_channels);
  const int rings = result.ring.channels;
  result.tree = graph(Pattern::balanced_tree, rings, rings);
  result.nvls = graph(Pattern::nvls, 1, 64);
  const int channels = std::min(result.ring.channels, result.tree.channels);
  result.ring.channels = result.tree.channels = channels;
  return result;
}

void weaken(SearchResult& result, const SearchResult& other) {
  weaken(result.ring, other.ring);
  weaken(result.tree, other.tree);
  weaken(result.nvls, other.nvls);
  const int channels = std::min(result.ring.channels, result.tree.channels);
  result.ring.channels = result.tree.channels = channels;
}

}  // namespace stepcast::nccl
