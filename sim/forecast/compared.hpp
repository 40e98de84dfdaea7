#pragma once
// What `stepcast memory` and `stepcast volume` compare all strategies on: a model or a parameter
// count, a number of GPUs, and where they are named a machine and a GPU. Tested with the two
// comparisons.

#include <optional>
#include <string>
#include <vector>

#include "sim/forecast/resolve.hpp"
#include "sim/forecast/scenario.hpp"

namespace stepcast {

struct Compared {
  std::string model;  // empty: a parameter count alone
  std::optional<Model> loaded;
  std::int64_t parameters = 0;
  std::int64_t gpus = 1;
  std::int64_t gpus_per_node = 8;
  std::int64_t nodes() const { return ceil_div(gpus, gpus_per_node); }
  std::int64_t shard_group = 1;  // of hsdp, and of hpZ's secondary shards
  // One process drives all GPUs of nn.DataParallel, so it stays within a node.
  bool has_dp() const { return nodes() == 1; }
  // ZeRO++'s second shard is of use where its group is a part of the GPUs.
  bool has_hpz() const { return shard_group > 1 && shard_group < gpus; }
  int accumulation = 1;
  std::optional<Cluster> cluster;
  std::string gpu;     // whose memory is the limit; empty: none named
  Bytes capacity = 0;  // of it
};

// The keys that count, and a scenario (somebody's whole step) without the others.
std::vector<std::string> compared_keys();
Scenario only_compared(Scenario scenario);

// Throws InputError: neither or both of model and params, no GPUs, a key that would be ignored.
Compared compared(const Scenario& scenario);

// The scenario with one strategy, for those that need the layers: a model and a cluster.
struct StrategyVariant {
  std::string name;  // "fsdp1 SHARD_GRAD_OP"
  StrategyKind kind = StrategyKind::ddp;
  const char* sharding = nullptr;  // fsdp1
  bool hpz = false;                // zero3
};
std::vector<StrategyVariant> compared_strategies(const Compared& compared);
Scenario with_strategy(const Scenario& scenario, const StrategyVariant& variant,
                       std::int64_t shard_group);

// "7.000 B parameters on 8 GPUs, 1 node; shard group 8"
std::string head_of(const Compared& compared);
// Which strategies have no row here, and why; empty where all have one.
std::string left_out_of(const Compared& compared);

}  // namespace stepcast
