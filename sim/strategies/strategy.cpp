#include "sim/strategies/strategy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.hpp"
#include "sim/strategies/ddp/ddp.hpp"
#include "sim/strategies/dp/dp.hpp"
#include "sim/strategies/fsdp1/fsdp1.hpp"
#include "sim/strategies/fsdp2/fsdp2.hpp"
#include "sim/strategies/zero/stage12.hpp"
#include "sim/strategies/zero/stage3.hpp"

namespace stepcast {
namespace {

constexpr std::array<std::pair<std::string_view, StrategyKind>, 8> kinds{{
    {"dp", StrategyKind::dp},
    {"ddp", StrategyKind::ddp},
    {"zero1", StrategyKind::zero1},
    {"zero2", StrategyKind::zero2},
    {"zero3", StrategyKind::zero3},
    {"fsdp1", StrategyKind::fsdp1},
    {"fsdp2", StrategyKind::fsdp2},
    {"hsdp", StrategyKind::hsdp},
}};

constexpr std::array<std::pair<std::string_view, ShardingStrategy>, 5> shardings{{
    {"FULL_SHARD", ShardingStrategy::full_shard},
    {"SHARD_GRAD_OP", ShardingStrategy::shard_grad_op},
    {"NO_SHARD", ShardingStrategy::no_shard},
    {"HYBRID_SHARD", ShardingStrategy::hybrid_shard},
    {"_HYBRID_SHARD_ZERO2", ShardingStrategy::hybrid_shard_zero2},
}};

constexpr std::array<std::pair<std::string_view, CommHook>, 5> hooks{{
    {"none", CommHook::none},
    {"allreduce", CommHook::allreduce},
    {"fp16_compress", CommHook::fp16_compress},
    {"bf16_compress", CommHook::bf16_compress},
    {"powerSGD", CommHook::power_sgd},
}};

constexpr std::array<std::pair<std::string_view, OptimizerKind>, 5> optimizers{{
    {"adamw-fused", OptimizerKind::adamw_fused},
    {"adamw-foreach", OptimizerKind::adamw_foreach},
    {"adamw-unfused", OptimizerKind::adamw_unfused},
    {"sgd-momentum", OptimizerKind::sgd_momentum},
    {"sgd", OptimizerKind::sgd},
}};

void require(bool holds, const std::string& key, const std::string& message) {
  if (!holds) throw InputError({"", 0, key}, message);
}

// Which meshes FSDP1's strategies run on.
void check_sharding(const TrainingStep& step) {
  const ShardingStrategy sharding = step.strategy.sharding;
  const std::string name(to_string(sharding));
  const Mesh mesh = step.mesh;
  switch (sharding) {
    case ShardingStrategy::full_shard:
    case ShardingStrategy::shard_grad_op:
      require(mesh.replicate == 1, "mesh",
              name + " shards over all ranks; accepted: one shard group");
      break;
    case ShardingStrategy::no_shard:
      require(mesh.shard == 1, "mesh", name + " shards nothing; accepted: a shard group of 1");
      break;
    case ShardingStrategy::hybrid_shard:
    case ShardingStrategy::hybrid_shard_zero2: break;
  }
}

// fully_shard's options.
void check_fully_shard(const TrainingStep& step) {
  const StrategyOptions& o = step.strategy;
  const int group = o.reshard_group;
  require(group == 0 || o.kind == StrategyKind::fsdp2, "reshard_after_forward",
          fmt::format("{} within hsdp's shard groups of {} needs a third mesh axis, which stepcast "
                      "does not have; accepted: true, false, 1, {}",
                      group, step.mesh.shard, step.mesh.shard));
  require(group == 0 || (group == step.mesh.shard && group > 1 && step.mesh.replicate > 1),
          "reshard_after_forward",
          fmt::format("{} is no proper divisor of the {} GPUs; accepted: true, false, or a divisor",
                      group, step.mesh.world_size()));
  require(group == 0 || o.reshard_after_forward, "reshard_after_forward",
          "a group to reshard to, and no resharding");
  require(o.forward_prefetch_units >= 0 && o.backward_prefetch_units >= 0, "forward_prefetch_units",
          "a negative number of units; accepted: 0 or more");
  const bool embeds = std::any_of(step.model.layers.begin(), step.model.layers.end(),
                                  [](const Layer& l) { return l.kind == LayerKind::embedding; });
  require(o.unshard_embedding_in_backward || embeds, "unshard_embedding_in_backward",
          step.model.name + " has no embedding; accepted: true");
  require(o.unshard_embedding_in_backward || o.wrap == WrapPolicy::torchtitan,
          "unshard_embedding_in_backward",
          "the embedding is part of the root, which stays gathered; accepted: true, or wrap "
          "torchtitan");
}

void check(const TrainingStep& step) {
  const StrategyKind kind = step.strategy.kind;
  const std::string name(to_string(kind));
  require(step.mesh.replicate >= 1 && step.mesh.shard >= 1, "mesh",
          fmt::format("{} x {} is not a mesh; accepted: 1 or more each", step.mesh.replicate,
                      step.mesh.shard));
  const bool replicates = kind == StrategyKind::dp || kind == StrategyKind::ddp ||
                          kind == StrategyKind::zero1 || kind == StrategyKind::zero2;
  require(!replicates || step.mesh.shard == 1, "mesh",
          name + " replicates the parameters; accepted: a shard group of 1");
  const bool shards = kind == StrategyKind::zero3 || kind == StrategyKind::fsdp2;
  const int within =
      kind == StrategyKind::fsdp2 ? step.strategy.reshard_group : step.strategy.hpz_group;
  require(!shards || within > 0 || step.mesh.replicate == 1, "mesh",
          name + " shards over all ranks; accepted: one shard group (hsdp replicates)");
  require(step.strategy.hpz_group == 0 ||
              (kind == StrategyKind::zero3 && step.strategy.hpz_group == step.mesh.shard &&
               step.mesh.shard > 1 && step.mesh.replicate > 1),
          "zero_hpz_partition_size",
          fmt::format("{} is no proper divisor of the {} GPUs of zero3; accepted: 1, or a divisor",
                      step.strategy.hpz_group, step.mesh.world_size()));
  require(step.strategy.sub_group_elements >= 1, "sub_group_size",
          fmt::format("{} is out of range; accepted: 1 or more elements",
                      step.strategy.sub_group_elements));
  if (kind == StrategyKind::fsdp1) check_sharding(step);
  if (kind == StrategyKind::ddp) ddp::check_options(step);
  if (kind == StrategyKind::fsdp2 || kind == StrategyKind::hsdp) check_fully_shard(step);
  require(step.accumulation >= 1 && step.accumulation <= 32767, "accumulation",
          fmt::format("{} is out of range; accepted: 1 to 32767 micro-batches", step.accumulation));
  const std::vector<std::string> recipes = precision_recipes_of(kind);
  if (std::find(recipes.begin(), recipes.end(), step.precision.name) == recipes.end()) {
    throw not_accepted({"", 0, "precision of " + name}, step.precision.name, recipes);
  }
  const auto positive = [&](const std::optional<double>& mib, const char* key) {
    require(!mib || (*mib > 0 && *mib <= 1e9), key,
            fmt::format("{} is out of range; accepted: more than 0 MiB", mib.value_or(0)));
  };
  require(step.strategy.reduce_bucket_elements >= 1, "reduce_bucket_elements",
          fmt::format("{} is out of range; accepted: 1 or more elements",
                      step.strategy.reduce_bucket_elements));
  positive(step.strategy.bucket_cap_mib, "bucket_cap_mb");
  positive(step.strategy.first_bucket_mib, "first_bucket_mb");
  require(
      !step.strategy.checkpoint_outside_unit || step.workload.checkpointing == Checkpointing::full,
      "checkpoint_outside_unit", "needs checkpointing full; accepted: false");
  require(step.strategy.accumulation_sync != AccumulationSync::reduce_scatter_every ||
              kind == StrategyKind::hsdp,
          "accumulation_sync",
          fmt::format("'reduce_scatter_every' needs hsdp, not {}; accepted: last, every", name));
}

}  // namespace

Schedule build_schedule(const TrainingStep& step) {
  check(step);
  switch (step.strategy.kind) {
    case StrategyKind::dp: return dp::build(step);
    case StrategyKind::ddp: return ddp::build(step);
    case StrategyKind::zero1:
    case StrategyKind::zero2: return zero::build_stage12(step);
    case StrategyKind::zero3: return zero::build_stage3(step);
    case StrategyKind::fsdp1: return fsdp1::build(step);
    case StrategyKind::fsdp2:
    case StrategyKind::hsdp: return fsdp2::build(step);
  }
  STEPCAST_ASSERT(false, "a strategy that is not dispatched");
}

std::string_view to_string(StrategyKind kind) {
  for (const auto& [name, value] : kinds) {
    if (value == kind) return name;
  }
  return "";
}

StrategyKind parse_strategy(const std::string& name) {
  std::vector<std::string> accepted;
  for (const auto& [known, value] : kinds) {
    if (known == name) return value;
    accepted.emplace_back(known);
  }
  throw not_accepted({"", 0, "strategy"}, name, accepted);
}

std::string_view to_string(ShardingStrategy sharding) {
  for (const auto& [name, value] : shardings) {
    if (value == sharding) return name;
  }
  return "";
}

ShardingStrategy parse_sharding(const std::string& name) {
  std::vector<std::string> accepted;
  int number = 0;
  for (const auto& [known, value] : shardings) {
    // PyTorch's enum counts from 1, and configuration files use the number too.
    if (known == name || std::to_string(++number) == name) return value;
    accepted.emplace_back(known);
  }
  throw not_accepted({"", 0, "sharding_strategy"}, name, accepted);
}

CommHook parse_comm_hook(const std::string& name) {
  std::vector<std::string> accepted;
  for (const auto& [known, value] : hooks) {
    if (known == name) return value;
    accepted.emplace_back(known);
  }
  throw not_accepted({"", 0, "comm_hook"}, name, accepted);
}

std::string_view to_string(BackwardPrefetchMode mode) {
  switch (mode) {
    case BackwardPrefetchMode::pre: return "BACKWARD_PRE";
    case BackwardPrefetchMode::post: return "BACKWARD_POST";
    case BackwardPrefetchMode::none: return "none";
  }
  return "";
}

std::string_view to_string(OptimizerKind kind) {
  for (const auto& [name, value] : optimizers) {
    if (value == kind) return name;
  }
  return "";
}

OptimizerKind parse_optimizer(const std::string& name) {
  std::vector<std::string> accepted;
  for (const auto& [known, value] : optimizers) {
    if (known == name) return value;
    accepted.emplace_back(known);
  }
  throw not_accepted({"", 0, "optimizer"}, name, accepted);
}

std::string_view to_string(AccumulationSync sync) {
  switch (sync) {
    case AccumulationSync::last: return "last";
    case AccumulationSync::every: return "every";
    case AccumulationSync::reduce_scatter_every: return "reduce_scatter_every";
  }
  return "";
}

}  // namespace stepcast
