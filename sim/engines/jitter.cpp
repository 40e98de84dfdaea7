// One max-plus walk over the program, for two kinds of timestamp.

#include "sim/engines/jitter.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <random>
#include <vector>

#include "base/error.hpp"
#include "sim/engines/list_walk.hpp"
#include "sim/engines/run_plan.hpp"

namespace stepcast {
namespace {

constexpr int steady_steps = 6;
constexpr double least = 0.05;  // of its time that a kernel takes at least

// ---- All ranks one by one -----------------------------------------------------------------------

class RankVector {
 public:
  using Time = std::vector<Seconds>;

  RankVector(const Mesh& mesh, const Jitter& jitter)
      : mesh_(mesh), jitter_(jitter), random_(jitter.seed), ranks_(at(mesh.world_size())) {
    for (std::size_t r = 0; r < ranks_; ++r) persistent_.push_back(jitter.persistent * draw());
  }

  Time zero() const { return Time(ranks_, 0.0); }
  static void later(Time& time, const Time& other) {
    for (std::size_t r = 0; r < time.size(); ++r) time[r] = std::max(time[r], other[r]);
  }
  static void add(Time& time, Seconds seconds) {
    for (Seconds& each : time) each += seconds;
  }
  void add_kernels(Time& time, Seconds seconds, int kernels) {
    const double by_chance = jitter_.kernel / std::sqrt(kernels);
    for (std::size_t r = 0; r < ranks_; ++r) {
      time[r] += seconds * std::max(least, 1 + persistent_[r] + by_chance * draw());
    }
  }
  void meet(Time& time, Axis axis) const {
    std::vector<Seconds> latest(ranks_, 0.0);
    for (std::size_t r = 0; r < ranks_; ++r) {
      latest[group(axis, r)] = std::max(latest[group(axis, r)], time[r]);
    }
    for (std::size_t r = 0; r < ranks_; ++r) time[r] = latest[group(axis, r)];
  }
  static Seconds last(const Time& time) { return *std::max_element(time.begin(), time.end()); }

 private:
  static std::size_t at(int index) { return static_cast<std::size_t>(index); }
  double draw() { return normal_(random_); }
  std::size_t group(Axis axis, std::size_t rank) const {
    if (axis == Axis::world) return 0;
    return axis == Axis::shard ? rank / at(mesh_.shard) : rank % at(mesh_.shard);
  }

  Mesh mesh_;
  Jitter jitter_;
  std::mt19937_64 random_;
  std::normal_distribution<double> normal_;
  std::size_t ranks_;
  std::vector<double> persistent_;
};

// ---- One for all --------------------------------------------------------------------------------

class Folded {
 public:
  // A rank that may be the slowest: where all were together last, and how far off ranks are since.
  struct Candidate {
    Seconds base = 0;
    Seconds persistent = 0, chance = 0;              // of a rank; chance squared
    Seconds group_persistent = 0, group_chance = 0;  // of its shard group, whose ranks met

    double own() const { return persistent * persistent + chance; }
    double deviation() const {
      return std::sqrt(own() + group_persistent * group_persistent + group_chance);
    }
    bool behind(const Candidate& other) const {
      return base <= other.base && persistent <= other.persistent && chance <= other.chance &&
             group_persistent <= other.group_persistent && group_chance <= other.group_chance;
    }
  };
  using Time = std::vector<Candidate>;

  Folded(const Mesh& mesh, const Jitter& jitter)
      : mesh_(mesh), jitter_(jitter), all_(largest_of_normals(mesh.world_size())) {}

  static Time zero() { return {Candidate{}}; }
  void later(Time& time, const Time& other) const {
    time.insert(time.end(), other.begin(), other.end());
    Time kept;
    for (std::size_t i = 0; i < time.size(); ++i) {
      bool behind = false;
      for (std::size_t j = 0; j < time.size() && !behind; ++j) {
        behind = i != j && time[i].behind(time[j]) && (i > j || !time[j].behind(time[i]));
      }
      if (!behind) kept.push_back(time[i]);
    }
    while (kept.size() > most) {
      kept.erase(std::min_element(kept.begin(), kept.end(), [&](const auto& a, const auto& b) {
        return reach(a) < reach(b);
      }));
    }
    time = std::move(kept);
  }
  static void add(Time& time, Seconds seconds) {
    for (Candidate& each : time) each.base += seconds;
  }
  void add_kernels(Time& time, Seconds seconds, int kernels) const {
    for (Candidate& each : time) {
      each.base += seconds;
      each.persistent += seconds * jitter_.persistent;
      each.chance += seconds * jitter_.kernel * seconds * jitter_.kernel / kernels;
    }
  }
  void meet(Time& time, Axis axis) const {
    const int ranks = mesh_.size(axis);
    const LargestNormal largest = largest_of_normals(ranks);
    if (axis == Axis::shard && ranks < mesh_.world_size()) {
      for (Candidate& each : time) {
        each.base += largest.mean * std::sqrt(each.own());
        each.group_persistent += each.persistent * largest.deviation;
        each.group_chance += each.chance * largest.deviation * largest.deviation;
        each.persistent = each.chance = 0;
      }
      return;
    }
    Seconds latest = 0;
    for (const Candidate& each : time) {
      latest = std::max(latest, each.base + largest.mean * each.deviation());
    }
    time.assign(1, Candidate{});
    time.front().base = latest;
  }
  Seconds last(const Time& time) const {
    Seconds latest = 0;
    for (const Candidate& each : time) latest = std::max(latest, reach(each));
    return latest;
  }

 private:
  static constexpr std::size_t most = 8;
  Seconds reach(const Candidate& of) const { return of.base + all_.mean * of.deviation(); }

  Mesh mesh_;
  Jitter jitter_;
  LargestNormal all_;
};

// ---- The walk, as list_walk.cpp has it ----------------------------------------------------------

template <typename Times>
class Walk {
 public:
  using Time = typename Times::Time;

  Walk(RunPlan& plan, Times times)
      : plan_(plan),
        times_(std::move(times)),
        lanes_(std::max<std::size_t>(1, plan.schedule().lanes.size()), times_.zero()),
        streams_(plan.schedule().streams.size(), times_.zero()),
        comms_(plan.schedule().communicators.size(), times_.zero()) {
    for (int step = 0; step < plan_.steps(); ++step) {
      for (const Op& op : plan_.ops_of(0, step).ops) {
        for (const OpRef& ref : plan_.schedule().at_refs(op.waits)) {
          const OpAt awaited = plan_.resolve(0, step, ref);
          if (!awaited.exists()) continue;
          ends_.emplace(key(awaited), Time{});
          farthest_ = std::max(farthest_, step - awaited.step);
        }
      }
    }
  }

  // Mean length of the steps after the first steady one.
  Seconds period() {
    std::vector<Seconds> ends;
    for (int step = 0; step < plan_.steps(); ++step) {
      last_ = 0;
      const std::vector<Op>& ops = plan_.ops_of(0, step).ops;
      for (std::size_t i = 0; i < ops.size(); ++i) {
        const OpAt here{step, static_cast<OpIndex>(i)};
        const Time end = visit(ops[i], step, plan_.cost(0, here));
        const auto awaited = ends_.find(key(here));
        if (awaited != ends_.end()) awaited->second = end;
      }
      ends.push_back(last_);
      ends_.erase(ends_.begin(), ends_.lower_bound({step + 1 - farthest_, 0}));
    }
    return (ends.back() - ends[ends.size() - steady_steps]) / (steady_steps - 1);
  }

 private:
  using Key = std::pair<int, OpIndex>;
  static Key key(OpAt at) { return {at.step, at.op}; }

  Time visit(const Op& op, int step, const OpCost& cost) {
    Time& lane = lanes_[static_cast<std::size_t>(op.lane)];
    Time first = lane;
    times_.add(first, cost.host / std::max(1, op.launches));
    times_.add(lane, cost.host);
    switch (op.kind) {
      case OpKind::compute:
      case OpKind::copy:
      case OpKind::collective: return run(op, cost, first, lane);
      case OpKind::stream_wait: {
        Time& stream = streams_[static_cast<std::size_t>(op.stream)];
        times_.later(stream, lane);
        wait(op, step, stream);
        return stream;
      }
      case OpKind::host_wait:
        wait(op, step, lane);
        if (op.wait_target != WaitTarget::ops) {
          for (std::size_t s = 0; s < streams_.size(); ++s) {
            if (op.wait_target == WaitTarget::stream && op.wait_stream != static_cast<int>(s)) {
              continue;
            }
            times_.later(lane, streams_[s]);
          }
        }
        return lane;
      case OpKind::storage: times_.add(lane, cost.solo); return lane;
      case OpKind::host_work:
      case OpKind::alloc:
      case OpKind::free: return lane;
    }
    return lane;
  }

  Time run(const Op& op, const OpCost& cost, const Time& first, const Time& issued) {
    Time& stream = streams_[static_cast<std::size_t>(op.stream)];
    times_.later(stream, first);
    if (op.kind == OpKind::collective) {
      Time& comm = comms_[static_cast<std::size_t>(op.comm)];
      times_.later(stream, comm);
      times_.meet(stream, plan_.schedule().communicators[static_cast<std::size_t>(op.comm)].axis);
    }
    if (op.kind == OpKind::compute) {
      times_.add_kernels(stream, cost.solo, std::max(1, op.kernels.count));
    } else {
      times_.add(stream, cost.solo);
    }
    Time launched = issued;
    times_.add(launched, cost.solo / std::max(1, op.launches));
    times_.later(stream, launched);
    if (op.kind == OpKind::collective) comms_[static_cast<std::size_t>(op.comm)] = stream;
    last_ = std::max(last_, times_.last(stream));
    return stream;
  }

  void wait(const Op& op, int step, Time& held) {
    for (const OpRef& ref : plan_.schedule().at_refs(op.waits)) {
      const OpAt awaited = plan_.resolve(0, step, ref);
      if (awaited.exists()) times_.later(held, ends_.at(key(awaited)));
    }
  }

  RunPlan& plan_;
  Times times_;
  std::vector<Time> lanes_, streams_, comms_;
  std::map<Key, Time> ends_;  // of ops that others wait for
  int farthest_ = 0;          // steps that a wait reaches back, as a loader's that reads ahead
  Seconds last_ = 0;
};

template <typename Times>
Seconds period(const Schedule& schedule, const CostTable& costs, const Jitter& jitter) {
  STEPCAST_ASSERT(can_jitter(schedule), "jitter of several roles");
  RunOptions options;
  const int programs = static_cast<int>(schedule.roles.front().steps.size());
  for (int p = 0; p + 1 < programs; ++p) options.programs.push_back(p);
  options.programs.insert(options.programs.end(), steady_steps, programs - 1);
  RunPlan plan(schedule, costs, options);
  return Walk<Times>(plan, Times(schedule.mesh, jitter)).period();
}

}  // namespace

bool can_jitter(const Schedule& schedule) { return is_one_pass(schedule); }

Seconds jitter_folded(const Schedule& schedule, const CostTable& costs, const Jitter& jitter) {
  return period<Folded>(schedule, costs, jitter);
}

Seconds jitter_of_ranks(const Schedule& schedule, const CostTable& costs, const Jitter& jitter) {
  return period<RankVector>(schedule, costs, jitter);
}

LargestNormal largest_of_normals(int n) {
  // Moments of the density n phi(x) Phi(x)^(n-1), by the rule of rectangles: smooth and zero at
  // both ends, so 1/64 a step is exact to ten digits.
  static std::mutex mutex;
  static std::map<int, LargestNormal> known;
  const std::scoped_lock lock(mutex);
  const auto found = known.find(n);
  if (found != known.end()) return found->second;
  STEPCAST_ASSERT(n >= 1, "the largest of none");
  constexpr double step = 1.0 / 64;
  double mean = 0, square = 0;
  for (double x = -9; x <= 9; x += step) {
    const double below = 0.5 * std::erfc(-x / std::sqrt(2.0));
    const double density = n * std::exp(-x * x / 2) / std::sqrt(2 * M_PI) * std::pow(below, n - 1);
    mean += step * x * density;
    square += step * x * x * density;
  }
  return known[n] = {mean, std::sqrt(square - mean * mean)};
}

}  // namespace stepcast
