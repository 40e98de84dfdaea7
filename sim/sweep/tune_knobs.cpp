#include "sim/sweep/tune_knobs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "base/error.hpp"
#include "sim/forecast/scenario_keys.hpp"

namespace stepcast {
namespace {

constexpr std::int64_t most_micro_batch = 1024;
constexpr const char* strategies[] = {"ddp", "zero1", "zero2", "zero3", "fsdp2", "hsdp"};

Where here() { return {.file = "tune", .line = 0, .key = ""}; }

bool is_zero(StrategyKind kind) {
  return kind == StrategyKind::zero1 || kind == StrategyKind::zero2 || kind == StrategyKind::zero3;
}

void set(Scenario& s, const char* key, const std::string& value) {
  scenario_key(key).set(s, value, here());
}

}  // namespace

const std::vector<std::string>& tuned_keys() {
  static const std::vector<std::string> keys{
      "strategy",          "checkpointing", "micro_batch",           "accumulation",
      "accumulation_sync", "shard_group",   "reshard_after_forward", "bucket_cap_mb",
      "reduce_bucket_size"};
  return keys;
}

Knobs::Knobs(const Scenario& given, const TuneOptions& options)
    : given_(given), base_(given), options_(options) {
  for (const std::string& key : options.keep) {
    const auto& known = tuned_keys();
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      throw not_accepted({.file = "--keep", .line = 0, .key = ""}, key, known);
    }
  }
  if (kept("strategy") && !given.strategy && !given.sharding_strategy) {
    throw InputError({.file = "--keep", .line = 0, .key = ""},
                     "strategy is to be kept, and none is said; accepted: --strategy NAME");
  }
  const auto wanted = [&](const std::string& name) {
    const auto& of = options.strategies;
    return of.empty() || std::find(of.begin(), of.end(), name) != of.end();
  };
  std::copy_if(std::begin(strategies), std::end(strategies), std::back_inserter(strategies_),
               wanted);
  options_.checkpointing = levels_of_model(given, options_.checkpointing);
  const Cluster cluster = resolve_cluster(given);
  world_ = cluster.world_size;
  node_ = std::min(cluster.gpus_per_node, world_);
  if (options.global_batch && *options.global_batch % world_ != 0) {
    const std::int64_t below = *options.global_batch / world_ * world_;
    throw InputError(
        {.file = "--global-batch", .line = 0, .key = ""},
        fmt::format("{} is no multiple of the {} GPUs; accepted: {}, {}, ...",
                    *options.global_batch, world_, std::max<std::int64_t>(below, world_),
                    std::max<std::int64_t>(below, world_) + world_));
  }
  if (options.global_batch && kept("micro_batch") && kept("accumulation")) {
    throw InputError({.file = "--global-batch", .line = 0, .key = ""},
                     "micro_batch and accumulation are both kept; accepted: one of them");
  }
  for (const std::string& key : tuned_keys()) {
    if (!kept(key) && key != "accumulation") scenario_key(key).reset(base_);
  }
  if (!kept("strategy")) base_.sharding_strategy.reset();
}

bool Knobs::kept(const std::string& key) const {
  return std::find(options_.keep.begin(), options_.keep.end(), key) != options_.keep.end();
}

std::vector<std::string> Knobs::values(const std::string& key, const Scenario& s) const {
  if (kept(key)) return {};
  const StrategyChoice strategy = resolve_strategy(s);
  if (key != "strategy" && !strategy_takes(key, strategy)) return {};
  if (key == "strategy") return strategies_;
  if (key == "checkpointing") return options_.checkpointing;
  if (key == "reshard_after_forward") return {"true", "false"};
  if (key == "accumulation_sync") {
    // Full gradients kept until the last micro-batch, or reduced after each. DeepSpeed's stages
    // have no choice.
    const bool several = options_.global_batch || given_.accumulation.value_or(1) > 1;
    if (!several || strategy.kind == StrategyKind::dp || is_zero(strategy.kind)) return {};
    if (strategy.kind == StrategyKind::hsdp) return {"last", "every", "reduce_scatter_every"};
    return {"last", "every"};
  }
  std::vector<std::string> list;
  if (key == "micro_batch") {
    // 1, 2, 3, 4, 6, 8, 12, ...; with a global batch those that divide a GPU's part of it.
    const std::int64_t part = options_.global_batch.value_or(0) / world_;
    for (std::int64_t b = 1; b <= most_micro_batch; b *= 2) {
      for (const std::int64_t value : {b, b + b / 2}) {
        if (value == b + b / 2 && b == 1) continue;
        if (part == 0 || part % value == 0) list.push_back(std::to_string(value));
      }
    }
  }
  if (key == "shard_group") {
    // Parts of a node and whole nodes that divide the world.
    for (int group = 2; group < world_; ++group) {
      if (world_ % group != 0 || (node_ % group != 0 && group % node_ != 0)) continue;
      list.push_back(std::to_string(group));
    }
  }
  return list;
}

// With the accumulation that the global batch asks for, and nothing that has no meaning then.
std::optional<Scenario> Knobs::finished(Scenario s) const {
  const StrategyChoice strategy = resolve_strategy(s);
  for (const ScenarioKey& key : scenario_keys()) {
    if (key.is_set(s) && !strategy_takes(key.name(), strategy)) key.reset(s);
  }
  if (options_.global_batch) {
    const std::int64_t part = *options_.global_batch / world_;
    const bool follows = kept("accumulation");  // which of the two
    const std::int64_t said = follows ? s.accumulation.value_or(1) : s.micro_batch.value_or(1);
    if (part % said != 0) return std::nullopt;
    set(s, follows ? "micro_batch" : "accumulation", std::to_string(part / said));
  }
  const bool one = s.accumulation.value_or(1) == 1 || is_zero(strategy.kind);
  if (one && !kept("accumulation_sync")) scenario_key("accumulation_sync").reset(s);
  return s;
}

std::optional<Scenario> Knobs::at_global_batch(const Scenario& s) const { return finished(s); }

std::vector<Scenario> Knobs::combinations() const {
  std::vector<Scenario> list{base_};
  if (!kept("strategy")) {
    list.clear();
    for (const std::string& name : strategies_) {
      Scenario s = base_;
      set(s, "strategy", name);
      list.push_back(std::move(s));
    }
  }
  for (const char* key : {"checkpointing", "shard_group", "reshard_after_forward",
                          "accumulation_sync", "micro_batch"}) {
    std::vector<Scenario> next;
    for (const Scenario& s : list) {
      const std::vector<std::string> choice = values(key, s);
      if (choice.empty()) next.push_back(s);
      for (const std::string& value : choice) {
        next.push_back(s);
        set(next.back(), key, value);
      }
    }
    list = std::move(next);
  }
  std::vector<Scenario> finished_ones;
  std::set<std::string> seen;
  for (const Scenario& s : list) {
    std::optional<Scenario> whole = finished(s);
    if (whole && seen.insert(to_toml(*whole)).second) finished_ones.push_back(std::move(*whole));
  }
  return finished_ones;
}

std::optional<Scenario> Knobs::with(const Scenario& s, const std::string& key,
                                    const std::string& value) const {
  Scenario changed = s;
  if (value.empty()) {
    scenario_key(key).reset(changed);
  } else {
    set(changed, key.c_str(), value);
  }
  return finished(std::move(changed));
}

std::optional<Knobs::Size> Knobs::size_of(const Scenario& s) const {
  const StrategyKind kind = resolve_strategy(s).kind;
  if (kind == StrategyKind::ddp && !kept("bucket_cap_mb")) return Size{"bucket_cap_mb", 1};
  // In elements, two bytes each as DeepSpeed reduces them by default.
  if (is_zero(kind) && !kept("reduce_bucket_size"))
    return Size{"reduce_bucket_size", 2.0 / (1 << 20)};
  return std::nullopt;
}

std::string Knobs::by_default(const std::string& key, const Scenario& s) const {
  const ScenarioKey& of = scenario_key(key);
  if (of.is_set(given_) && strategy_takes(key, resolve_strategy(s))) return of.text(given_);
  if (key == "strategy") return "";
  if (key == "checkpointing") return "none";
  if (key == "accumulation_sync") return "last";
  if (key == "micro_batch" || key == "accumulation") return "1";
  if (key == "reshard_after_forward") return "true";
  if (key == "bucket_cap_mb") return "25";
  if (key == "reduce_bucket_size") return "500000000";
  if (key == "shard_group") return std::to_string(default_shard_group(world_, node_));
  return "";
}

}  // namespace stepcast
