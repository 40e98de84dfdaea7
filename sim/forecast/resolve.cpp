#include "sim/forecast/resolve.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace stepcast {

namespace {

bool looks_like_path(const std::string& name) {
  return name.find('/') != std::string::npos || name.ends_with(".json") || name.ends_with(".toml");
}

// Refuses a name that is neither known nor a path, at the place where it was said.
void check_name(const Scenario& scenario, const char* key, const std::string& name,
                const std::vector<std::string>& known) {
  if (looks_like_path(name)) return;
  if (std::find(known.begin(), known.end(), name) != known.end()) return;
  throw not_accepted(scenario.where(key), name, known);
}

int to_int(const std::optional<std::int64_t>& value) { return static_cast<int>(value.value_or(0)); }

Checkpointing parse_checkpointing(const std::string& text) {
  if (text == "full") return Checkpointing::full;
  return text == "selective" ? Checkpointing::selective : Checkpointing::none;
}

AccumulationSync parse_sync(const std::string& text) {
  if (text == "every") return AccumulationSync::every;
  return text == "last" ? AccumulationSync::last : AccumulationSync::reduce_scatter_every;
}

FabricKind parse_fabric(const std::string& text) {
  if (text == "single_switch") return FabricKind::single_switch;
  return text == "leaf_spine" ? FabricKind::leaf_spine : FabricKind::rail_optimised;
}

Mesh resolve_mesh(const Scenario& scenario, StrategyKind kind, const Cluster& cluster,
                  std::vector<std::string>& notes) {
  const int world = cluster.world_size;
  if (kind == StrategyKind::ddp || kind == StrategyKind::dp)
    return {.replicate = world, .shard = 1};
  if (kind != StrategyKind::hsdp) return {.replicate = 1, .shard = world};
  if (!scenario.shard_group) {
    const int group = default_shard_group(world, cluster.gpus_per_node);
    const int node = std::min(world, cluster.gpus_per_node);
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

// Options of one strategy that were said under another would be ignored in silence.
void refuse_options_of_others(const Scenario& s, StrategyKind kind) {
  const bool sharded = kind == StrategyKind::fsdp2 || kind == StrategyKind::hsdp;
  const auto refuse = [&](const char* key, bool said, bool applies, const char* owner) {
    if (!said || applies) return;
    throw InputError(s.where(key), fmt::format("applies to {} only, and the strategy is {}", owner,
                                               to_string(kind)));
  };
  const bool ddp = kind == StrategyKind::ddp;
  refuse("bucket_cap_mb", s.bucket_cap_mb.has_value(), ddp, "ddp");
  refuse("first_bucket_mb", s.first_bucket_mb.has_value(), ddp, "ddp");
  refuse("gradient_as_bucket_view", s.gradient_as_bucket_view.has_value(), ddp, "ddp");
  refuse("reshard_after_forward", s.reshard_after_forward.has_value(), sharded, "fsdp2 and hsdp");
  refuse("reshard_after_backward", s.reshard_after_backward.has_value(), sharded, "fsdp2 and hsdp");
  refuse("separate_reduce_scatter_group", s.separate_reduce_scatter_group.has_value(), sharded,
         "fsdp2 and hsdp");
  refuse("wrap", s.wrap.has_value(), sharded, "fsdp2 and hsdp");
  refuse("shard_group", s.shard_group.has_value(), kind == StrategyKind::hsdp, "hsdp");
  refuse("accumulation_sync",
         s.accumulation_sync == "reduce_scatter_every" && kind != StrategyKind::hsdp, false,
         "hsdp (reduce_scatter_every)");
}

}  // namespace

int default_shard_group(int world_size, int gpus_per_node) {
  return world_size <= gpus_per_node ? world_size : std::gcd(world_size, gpus_per_node);
}

StrategyChoice resolve_strategy(const Scenario& s, std::vector<std::string>& notes) {
  if (!s.sharding_strategy) {
    if (!s.strategy) {
      throw InputError(s.where("strategy"),
                       "no strategy given; accepted: ddp, fsdp2, hsdp (dp, zero1, zero2, zero3 and "
                       "fsdp1 are not built yet)");
    }
    return {parse_strategy(*s.strategy), {}};
  }
  struct Mapping {
    const char* name;
    StrategyKind kind;
    std::optional<bool> reshard;
    const char* words;
  };
  static const Mapping mappings[] = {
      {"FULL_SHARD", StrategyKind::fsdp2, true, "fsdp2 with reshard_after_forward = true"},
      {"SHARD_GRAD_OP", StrategyKind::fsdp2, false, "fsdp2 with reshard_after_forward = false"},
      {"NO_SHARD", StrategyKind::ddp, {}, "ddp"},
      {"HYBRID_SHARD", StrategyKind::hsdp, true, "hsdp with reshard_after_forward = true"},
      {"_HYBRID_SHARD_ZERO2", StrategyKind::hsdp, false,
       "hsdp with reshard_after_forward = false"}};
  for (const Mapping& m : mappings) {
    if (*s.sharding_strategy != m.name) continue;
    if (s.strategy && *s.strategy != to_string(m.kind)) {
      throw InputError(
          s.where("sharding_strategy"),
          *s.strategy == "fsdp1"
              ? fmt::format(
                    "{} under fsdp1 is not built yet; leave strategy out to forecast it as {}",
                    m.name, m.words)
              : fmt::format("{} means {}, and strategy says {}", m.name, m.words, *s.strategy));
    }
    notes.push_back(
        fmt::format("sharding_strategy {} is forecast as {}; FSDP1's own schedule is "
                    "not built yet",
                    m.name, m.words));
    return {m.kind, m.reshard};
  }
  STEPCAST_ASSERT(false, "check_ranges accepted an unknown sharding strategy");
}

Cluster resolve_cluster(const Scenario& s) {
  if (!s.cluster) {
    throw InputError(s.where("cluster"), "no machine given; `stepcast list machines` names them");
  }
  check_name(s, "cluster", *s.cluster, catalog_machines());
  ClusterOptions options;
  options.nodes = to_int(s.nodes);
  options.gpus = to_int(s.gpus);
  options.gpus_per_node = to_int(s.gpus_per_node);
  if (!s.nodes && !s.gpus) options.nodes = 1;
  if (s.fabric) options.fabric = parse_fabric(*s.fabric);
  options.oversubscription = s.oversubscription;
  options.gpudirect_rdma = s.gpudirect_rdma;
  options.nic_gbps = s.nic_gbps;
  options.network = s.network;
  return make_cluster(load_machine(*s.cluster), options);
}

Resolved resolve(const Scenario& s) {
  check_ranges(s);
  Resolved r;
  if (!s.model) {
    throw InputError(s.where("model"), "no model given; `stepcast list models` names them");
  }
  const StrategyChoice strategy = resolve_strategy(s, r.notes);
  check_name(s, "model", *s.model, catalog_models());
  r.cluster = resolve_cluster(s);
  r.profile = load_profile(s.profile.value_or("pytorch-eager"));
  r.engine = s.engine.value_or("fluid");
  r.nccl_version = s.nccl_version.value_or("2.28.9");
  r.first_step = s.step.value_or("steady") == "first";

  TrainingStep& step = r.step;
  step.model = load_model(*s.model, s.seq_len.value_or(0));
  step.workload.micro_batch = s.micro_batch.value_or(1);
  step.workload.seq_len = s.seq_len.value_or(step.model.architecture.max_positions);
  if (step.workload.seq_len <= 0) {
    throw InputError(s.where("seq_len"), "the model has no sequence length of its own; give one");
  }
  step.workload.checkpointing = parse_checkpointing(s.checkpointing.value_or("none"));
  step.workload.fused_attention = s.fused_attention.value_or(true);
  step.workload.fused_elementwise = r.profile.fused_elementwise;
  step.workload.fused_loss = r.profile.fused_loss;
  step.precision = precision_recipe(s.precision.value_or(default_precision(strategy.kind)));
  step.workload.compute_dtype = step.precision.compute;
  step.workload.autocast_weights = step.precision.autocast;
  step.accumulation = static_cast<int>(s.accumulation.value_or(1));
  step.fused_optimizer = r.profile.fused_optimizer;
  step.first_step = r.first_step;
  step.sync_every_step = s.sync_every_step.value_or(false);

  refuse_options_of_others(s, strategy.kind);
  StrategyOptions& o = step.strategy;
  o.kind = strategy.kind;
  o.bucket_cap_mib = s.bucket_cap_mb;
  o.first_bucket_mib = s.first_bucket_mb;
  o.gradient_as_bucket_view = s.gradient_as_bucket_view.value_or(false);
  o.reshard_after_forward =
      s.reshard_after_forward.value_or(strategy.reshard_after_forward.value_or(true));
  o.reshard_after_backward = s.reshard_after_backward.value_or(true);
  o.separate_reduce_scatter_group = s.separate_reduce_scatter_group.value_or(false);
  o.wrap = s.wrap.value_or("block") == "torchtitan" ? WrapPolicy::torchtitan : WrapPolicy::block;
  o.accumulation_sync = parse_sync(s.accumulation_sync.value_or("last"));
  step.mesh = resolve_mesh(s, strategy.kind, r.cluster, r.notes);
  return r;
}

}  // namespace stepcast
