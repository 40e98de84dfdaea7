// The strategy's part of a scenario: which one, its mesh, its options, and what it refuses.
//
// An option that was said under a strategy that does not know it is an error, never ignored: the
// table of owners is in refuse_options_of_others(). Tested by tests/unit/forecast/resolve_test.cpp.

#include "sim/forecast/resolve_strategy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "base/error.hpp"
#include "sim/forecast/scenario_keys.hpp"

namespace stepcast {

namespace {

int to_int(const std::optional<std::int64_t>& value) { return static_cast<int>(value.value_or(0)); }

AccumulationSync parse_sync(const std::string& text) {
  if (text == "every") return AccumulationSync::every;
  return text == "last" ? AccumulationSync::last : AccumulationSync::reduce_scatter_every;
}

BackwardPrefetchMode parse_prefetch(const std::string& text) {
  if (text == "pre") return BackwardPrefetchMode::pre;
  return text == "post" ? BackwardPrefetchMode::post : BackwardPrefetchMode::none;
}

bool is_hybrid(const StrategyChoice& strategy) {
  return strategy.kind == StrategyKind::hsdp ||
         (strategy.kind == StrategyKind::fsdp1 &&
          (strategy.sharding == ShardingStrategy::hybrid_shard ||
           strategy.sharding == ShardingStrategy::hybrid_shard_zero2));
}

Mesh resolve_mesh(const Scenario& scenario, const StrategyChoice& strategy, const Cluster& cluster,
                  const Replica& replica, std::vector<std::string>& notes) {
  const int world = cluster.world_size / replica.gpus;  // data-parallel ranks
  const Mesh replicated{.replicate = world, .shard = 1};
  const Mesh sharded{.replicate = 1, .shard = world};
  const auto reshard = scenario.reshard_after_forward.value_or(YesNoOrCount{});
  // Sharded over all ranks, with gathers within groups of some; what is no proper divisor is
  // refused by the strategy.
  const auto grouped = [&](std::int64_t group) {
    const bool proper = group > 1 && group < world && world % group == 0;
    return proper ? Mesh{.replicate = world / static_cast<int>(group),
                         .shard = static_cast<int>(group)}
                  : sharded;
  };
  switch (strategy.kind) {
    case StrategyKind::dp:
    case StrategyKind::ddp:
    case StrategyKind::zero1:
    case StrategyKind::zero2: return replicated;
    case StrategyKind::zero3: return grouped(scenario.zero_hpz_partition_size.value_or(1));
    case StrategyKind::fsdp2: return grouped(reshard.yes ? reshard.count : 0);
    case StrategyKind::fsdp1:
      if (strategy.sharding == ShardingStrategy::no_shard) return replicated;
      if (!is_hybrid(strategy)) return sharded;
      break;
    case StrategyKind::hsdp: break;
  }
  if (!scenario.shard_group) {
    const int on_node = std::max(1, cluster.gpus_per_node / replica.inner);
    const int group = default_shard_group(world, on_node);
    const int node = std::min(world, on_node);
    if (replica.gpus > 1 && group == 1) {
      throw InputError(scenario.where("shard_group"),
                       "is missing: a node holds one data-parallel rank of each sibling; accepted: "
                       "replicas that share one copy");
    }
    if (group != node) {
      notes.push_back(fmt::format(
          "shard group {}: a node's {} GPUs do not divide {} GPUs, and no group spans nodes", group,
          node, world));
    }
    return {.replicate = world / group, .shard = group};
  }
  const int group = to_int(scenario.shard_group);
  if (group > world || world % group != 0) {
    std::string accepted;
    for (int d = 1; d <= world; ++d) {
      if (world % d == 0) accepted += (accepted.empty() ? "" : ", ") + std::to_string(d);
    }
    throw InputError(
        scenario.where("shard_group"),
        fmt::format("{} does not divide the {} GPUs; accepted: {}", group, world, accepted));
  }
  return {.replicate = world / group, .shard = group};
}

using Kinds = std::vector<StrategyKind>;

// The strategies that know an option; none: all do.
const Kinds& owners_of(const std::string& key) {
  static const Kinds ddp{StrategyKind::ddp}, fsdp1{StrategyKind::fsdp1};
  static const Kinds fsdp2{StrategyKind::fsdp2, StrategyKind::hsdp};
  static const Kinds fsdp{StrategyKind::fsdp1, StrategyKind::fsdp2, StrategyKind::hsdp};
  static const Kinds zero12{StrategyKind::zero1, StrategyKind::zero2}, zero3{StrategyKind::zero3};
  static const Kinds zero{StrategyKind::zero1, StrategyKind::zero2, StrategyKind::zero3};
  static const std::map<std::string, Kinds> owners{
      {"loss_in_forward", {StrategyKind::dp}},
      {"bucket_cap_mb", ddp},
      {"first_bucket_mb", ddp},
      {"gradient_as_bucket_view", ddp},
      {"ddp_bucket_rule", ddp},
      {"bucket_cap_mb_list", ddp},
      {"ddp_set_last_bucket_cap", ddp},
      {"batched_grad_copy", ddp},
      {"find_unused_parameters", ddp},
      {"static_graph", ddp},
      {"unused_parameters", ddp},
      {"unused_on_ranks", ddp},
      {"comm_hook", ddp},
      {"powersgd_rank", ddp},
      {"powersgd_min_compression_rate", ddp},
      {"join_early_ranks", ddp},
      {"join_divide_by_initial_world_size", ddp},
      {"broadcast_buffers", ddp},
      {"zero_grad_set_to_none", {StrategyKind::ddp, StrategyKind::zero1}},
      {"reshard_after_forward", fsdp2},
      {"reshard_after_backward", fsdp2},
      {"separate_reduce_scatter_group", fsdp2},
      {"fp8_all_gather", fsdp2},
      {"fp8_precompute_scale", fsdp2},
      {"wrap", fsdp},
      {"wrap_min_params", fsdp1},
      {"forward_prefetch_units", fsdp2},
      {"backward_prefetch_units", fsdp2},
      {"unshard_embedding_in_backward", fsdp2},
      {"keep_last_block", fsdp2},
      {"checkpoint_outside_unit", fsdp},
      {"sharding_strategy", fsdp1},
      {"backward_prefetch", fsdp1},
      {"forward_prefetch", fsdp1},
      {"limit_all_gathers", fsdp1},
      {"use_orig_params", fsdp1},
      {"reduce_bucket_size", zero},
      {"overlap_comm", zero},
      {"contiguous_gradients", zero12},
      {"use_multi_rank_bucket_allreduce", zero12},
      {"reduce_scatter", zero12},
      {"sub_group_size", zero3},
      {"zero_hpz_partition_size", zero3},
      {"stage3_prefetch_bucket_size", zero3},
      {"stage3_param_persistence_threshold", zero3},
      {"stage3_max_live_parameters", zero3},
      {"stage3_max_reuse_distance", zero3},
      {"leaf_layers", zero3}};
  static const Kinds all;
  const auto owner = owners.find(key);
  return owner == owners.end() ? all : owner->second;
}

// Options of one strategy that were said under another would be ignored in silence.
void refuse_options_of_others(const Scenario& s, const StrategyChoice& strategy) {
  for (const ScenarioKey& key : scenario_keys()) {
    if (!key.is_set(s)) continue;
    const Kinds& kinds = owners_of(key.name());
    if (kinds.empty() || std::find(kinds.begin(), kinds.end(), strategy.kind) != kinds.end()) {
      continue;
    }
    std::string names;
    for (const StrategyKind kind : kinds) {
      names += (names.empty() ? "" : ", ") + std::string(to_string(kind));
    }
    throw InputError(s.where(key.name()), fmt::format("applies to {} only, and the strategy is {}",
                                                      names, to_string(strategy.kind)));
  }
  const std::string wrap = s.wrap.value_or("block");
  const bool fsdp1_only = wrap == "size";
  if (wrap != "block" && fsdp1_only != (strategy.kind == StrategyKind::fsdp1)) {
    throw InputError(
        s.where("wrap"),
        fmt::format("'{}' is for {}, and the strategy is {}; accepted: block", wrap,
                    fsdp1_only ? "fsdp1" : "fsdp2 and hsdp", to_string(strategy.kind)));
  }
  if (s.wrap_min_params && !fsdp1_only) {
    throw InputError(s.where("wrap_min_params"), "needs wrap size");
  }
  if (s.shard_group && !is_hybrid(strategy)) {
    throw InputError(s.where("shard_group"),
                     fmt::format("applies to hsdp and fsdp1's HYBRID_SHARD only, and the strategy "
                                 "is {}",
                                 to_string(strategy.kind)));
  }
}

// DDP's options beyond its buckets' first sizes.
void resolve_ddp(const Scenario& s, StrategyOptions& o) {
  const std::string rule = s.ddp_bucket_rule.value_or("current");
  o.bucket_rule = rule == "pytorch-1.4"    ? BucketRule::pytorch_1_4
                  : rule == "pytorch-1.13" ? BucketRule::pytorch_1_13
                                           : BucketRule::current;
  o.bucket_caps_mib = s.bucket_cap_mb_list.value_or(o.bucket_caps_mib);
  o.small_last_bucket = s.ddp_set_last_bucket_cap.value_or(false);
  o.batched_grad_copy = s.batched_grad_copy.value_or(false);
  o.find_unused_parameters = s.find_unused_parameters.value_or(false);
  o.static_graph = s.static_graph.value_or(false);
  o.unused_parameters = s.unused_parameters.value_or(o.unused_parameters);
  for (const double rank : s.unused_on_ranks.value_or(std::vector<double>{})) {
    if (rank != std::floor(rank)) {
      throw InputError(s.where("unused_on_ranks"),
                       fmt::format("{} is not accepted; accepted: whole numbers", rank));
    }
    o.unused_on_ranks.push_back(static_cast<int>(rank));
  }
  o.comm_hook = parse_comm_hook(s.comm_hook.value_or("none"));
  for (const auto& [key, said] :
       {std::pair{"powersgd_rank", s.powersgd_rank.has_value()},
        {"powersgd_min_compression_rate", s.powersgd_min_compression_rate.has_value()}}) {
    if (!said || o.comm_hook == CommHook::power_sgd) continue;
    throw InputError(s.where(key), "applies to comm_hook powerSGD only");
  }
  o.powersgd_rank = static_cast<int>(s.powersgd_rank.value_or(o.powersgd_rank));
  o.powersgd_min_compression_rate =
      s.powersgd_min_compression_rate.value_or(o.powersgd_min_compression_rate);
  if (s.join_early_ranks) o.join_early_ranks = static_cast<int>(*s.join_early_ranks);
  o.join_divides_by_initial_world_size = s.join_divide_by_initial_world_size.value_or(true);
  o.broadcast_buffers = s.broadcast_buffers.value_or(true);
  o.zero_grad_set_to_none = s.zero_grad_set_to_none.value_or(true);
}

// DeepSpeed decides by stage when it reduces: saying the other would be ignored in silence.
void check_sync_of_zero(const Scenario& s, const StrategyChoice& strategy) {
  if (!s.accumulation_sync) return;
  const bool boundary = strategy.kind == StrategyKind::zero1;
  const bool always = strategy.kind == StrategyKind::zero2 || strategy.kind == StrategyKind::zero3;
  const std::string accepted = boundary ? "last" : "every";
  if ((!boundary && !always) || *s.accumulation_sync == accepted) return;
  throw InputError(
      s.where("accumulation_sync"),
      fmt::format("'{}' is not accepted under {}, which reduces {}; accepted: {}",
                  *s.accumulation_sync, to_string(strategy.kind),
                  boundary ? "at the accumulation boundary" : "in every micro-batch", accepted));
}

// nn.DataParallel drives its GPUs from one process, and reduces whenever it goes backward.
void check_one_machine(const Scenario& s, const StrategyChoice& strategy, const Cluster& cluster) {
  if (strategy.kind != StrategyKind::dp) return;
  if (cluster.nodes > 1) {
    throw InputError(
        s.where(s.nodes ? "nodes" : "gpus"),
        fmt::format("{} nodes are not accepted under dp, one process on one machine; accepted: 1 "
                    "node of {} (ddp runs on several)",
                    cluster.nodes, cluster.machine.name));
  }
  if (s.accumulation_sync && *s.accumulation_sync != "every") {
    throw InputError(s.where("accumulation_sync"),
                     fmt::format("'{}' is not accepted under dp, which has no no_sync; accepted: "
                                 "every",
                                 *s.accumulation_sync));
  }
}

}  // namespace

int default_shard_group(int world_size, int gpus_per_node) {
  return world_size <= gpus_per_node ? world_size : std::gcd(world_size, gpus_per_node);
}

bool strategy_takes(const std::string& key, const StrategyChoice& strategy) {
  if (key == "shard_group") return is_hybrid(strategy);
  const Kinds& kinds = owners_of(key);
  return kinds.empty() || std::find(kinds.begin(), kinds.end(), strategy.kind) != kinds.end();
}

std::string strategy_names() {
  std::string names;
  for (const StrategyKind kind :
       {StrategyKind::dp, StrategyKind::ddp, StrategyKind::zero1, StrategyKind::zero2,
        StrategyKind::zero3, StrategyKind::fsdp1, StrategyKind::fsdp2, StrategyKind::hsdp}) {
    names += (names.empty() ? "" : ", ") + std::string(to_string(kind));
  }
  return names;
}

StrategyChoice resolve_strategy(const Scenario& s) {
  StrategyChoice choice;
  if (s.strategy) {
    choice.kind = parse_strategy(*s.strategy);
  } else if (s.sharding_strategy) {
    choice.kind = StrategyKind::fsdp1;
  } else {
    throw InputError(s.where("strategy"), "no strategy given; accepted: " + strategy_names());
  }
  if (s.sharding_strategy) choice.sharding = parse_sharding(*s.sharding_strategy);
  return choice;
}

void resolve_strategy_options(const Scenario& s, const StrategyChoice& strategy, Resolved& r) {
  check_one_machine(s, strategy, r.cluster);
  check_sync_of_zero(s, strategy);
  refuse_options_of_others(s, strategy);
  StrategyOptions& o = r.step.strategy;
  o.kind = strategy.kind;
  o.loss_in_forward = s.loss_in_forward.value_or(false);
  o.bucket_cap_mib = s.bucket_cap_mb;
  o.first_bucket_mib = s.first_bucket_mb;
  o.gradient_as_bucket_view = s.gradient_as_bucket_view.value_or(false);
  resolve_ddp(s, o);
  o.reshard_after_backward = s.reshard_after_backward.value_or(true);
  o.forward_prefetch_units = to_int(s.forward_prefetch_units);
  o.backward_prefetch_units = to_int(s.backward_prefetch_units);
  o.unshard_embedding_in_backward = s.unshard_embedding_in_backward.value_or(true);
  o.keep_last_block = s.keep_last_block.value_or(false);
  o.fp8_all_gather = s.fp8_all_gather.value_or(false);
  o.fp8_precompute_scale = s.fp8_precompute_scale.value_or(false);
  o.checkpoint_outside_unit = s.checkpoint_outside_unit.value_or(false);
  o.reduce_scatter = s.reduce_scatter.value_or(true);
  o.sub_group_elements = s.sub_group_size.value_or(o.sub_group_elements);
  o.separate_reduce_scatter_group = s.separate_reduce_scatter_group.value_or(false);
  o.wrap = s.wrap.value_or("block") == "torchtitan" ? WrapPolicy::torchtitan : WrapPolicy::block;
  if (s.wrap.value_or("block") == "size") {
    o.wrap_min_params = s.wrap_min_params.value_or(100'000'000);
  }
  o.accumulation_sync = parse_sync(s.accumulation_sync.value_or("last"));
  o.sharding = strategy.sharding;
  o.backward_prefetch = parse_prefetch(s.backward_prefetch.value_or("pre"));
  o.forward_prefetch = s.forward_prefetch.value_or(o.forward_prefetch);
  o.limit_all_gathers = s.limit_all_gathers.value_or(o.limit_all_gathers);
  o.use_orig_params = s.use_orig_params.value_or(o.use_orig_params);
  o.reduce_bucket_elements = s.reduce_bucket_size.value_or(o.reduce_bucket_elements);
  o.overlap_comm = s.overlap_comm;
  o.contiguous_gradients = s.contiguous_gradients.value_or(o.contiguous_gradients);
  o.multi_rank_all_reduce = s.use_multi_rank_bucket_allreduce.value_or(o.multi_rank_all_reduce);
  o.prefetch_bucket_elements = s.stage3_prefetch_bucket_size.value_or(o.prefetch_bucket_elements);
  o.persistence_threshold = s.stage3_param_persistence_threshold.value_or(o.persistence_threshold);
  o.max_live_parameters = s.stage3_max_live_parameters.value_or(o.max_live_parameters);
  o.max_reuse_distance = s.stage3_max_reuse_distance.value_or(o.max_reuse_distance);
  o.leaf_layers = s.leaf_layers.value_or(false);
  r.step.mesh = resolve_mesh(s, strategy, r.cluster, r.replica, r.notes);
  // In PyTorch 1 is false and the shard group's size is true.
  const YesNoOrCount reshard = s.reshard_after_forward.value_or(YesNoOrCount{});
  const int shard_group =
      strategy.kind == StrategyKind::hsdp ? r.step.mesh.shard : r.step.mesh.world_size();
  o.reshard_after_forward = reshard.yes && reshard.count != 1;
  if (reshard.count > 1 && reshard.count != shard_group) {
    o.reshard_group = static_cast<int>(reshard.count);
  }
  if (s.zero_hpz_partition_size.value_or(1) > 1) o.hpz_group = to_int(s.zero_hpz_partition_size);
}

}  // namespace stepcast
