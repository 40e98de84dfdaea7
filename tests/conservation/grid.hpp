#pragma once
// The grid that conservation laws are tested on: strategies x world sizes x accumulation.

#include <numeric>
#include <string>
#include <vector>

#include "sim/strategies/strategy.hpp"

namespace stepcast::testing {

struct Cell {
  StrategyKind kind = StrategyKind::ddp;
  ShardingStrategy sharding = ShardingStrategy::full_shard;  // fsdp1
  int world = 2;
  int accumulation = 1;

  std::string name() const {
    std::string text(to_string(kind));
    if (kind == StrategyKind::fsdp1) text += " " + std::string(to_string(sharding));
    return text + ", " + std::to_string(world) + " ranks, accumulation " +
           std::to_string(accumulation);
  }
};

inline const int all_worlds[] = {2, 3, 8, 12, 64, 1024};

inline std::vector<Cell> grid(std::vector<int> worlds = {std::begin(all_worlds),
                                                         std::end(all_worlds)}) {
  std::vector<Cell> cells;
  for (const StrategyKind kind :
       {StrategyKind::dp, StrategyKind::ddp, StrategyKind::zero1, StrategyKind::zero2,
        StrategyKind::zero3, StrategyKind::fsdp1, StrategyKind::fsdp2, StrategyKind::hsdp}) {
    for (const int world : worlds) {
      if (kind == StrategyKind::dp && world > 8) continue;  // one process, one node
      for (const int accumulation : {1, 3}) {
        cells.push_back({kind, ShardingStrategy::full_shard, world, accumulation});
        if (kind != StrategyKind::fsdp1) continue;
        for (const ShardingStrategy sharding :
             {ShardingStrategy::shard_grad_op, ShardingStrategy::no_shard,
              ShardingStrategy::hybrid_shard, ShardingStrategy::hybrid_shard_zero2}) {
          cells.push_back({kind, sharding, world, accumulation});
        }
      }
    }
  }
  return cells;
}

inline Mesh mesh_of(const Cell& cell) {
  const int group = std::gcd(cell.world, 4);  // 3 ranks: no sharding, only replicas
  const Mesh replicated{cell.world, 1}, sharded{1, cell.world}, hybrid{cell.world / group, group};
  switch (cell.kind) {
    case StrategyKind::zero3:
    case StrategyKind::fsdp2: return sharded;
    case StrategyKind::fsdp1:
      switch (cell.sharding) {
        case ShardingStrategy::no_shard: return replicated;
        case ShardingStrategy::hybrid_shard:
        case ShardingStrategy::hybrid_shard_zero2: return hybrid;
        default: return sharded;
      }
    case StrategyKind::hsdp: return hybrid;
    default: return replicated;
  }
}

inline TrainingStep step_of(const Cell& cell, const Model& model) {
  TrainingStep step;
  step.model = model;
  step.workload.seq_len = model.architecture.heads > 0 ? 128 : 0;
  step.strategy.kind = cell.kind;
  step.strategy.sharding = cell.sharding;
  step.precision = precision_recipe(default_precision(cell.kind));
  step.workload.compute_dtype = step.precision.compute;
  step.workload.autocast_weights = step.precision.autocast;
  step.accumulation = cell.accumulation;
  // ZeRO-3 keeps gathered what it uses again soon: so small a model would be gathered once. The
  // closed form is that of nothing reused.
  step.strategy.max_reuse_distance = 0;
  step.mesh = mesh_of(cell);
  return step;
}

// Eight tensors whose rows every world size divides: no strategy pads them, and each is above
// ZeRO-3's persistence threshold.
inline Model divisible_model() {
  std::vector<Parameter> tensors;
  for (int i = 0; i < 8; ++i) {
    tensors.push_back({Name("t" + std::to_string(i)), {3072 * 4, 64 + 16 * i}});
  }
  return model_of_tensors(tensors);
}

}  // namespace stepcast::testing
