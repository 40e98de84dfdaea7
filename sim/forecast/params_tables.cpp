#include "sim/forecast/params_tables.hpp"

#include <fmt/format.h>

#include <cmath>

#include "base/error.hpp"
#include "sim/collectives/volume.hpp"
#include "sim/forecast/resolve.hpp"
#include "sim/report/format.hpp"

namespace stepcast {

namespace {

// "2 all-gather, 1 reduce-scatter": bytes over those of one collective of the whole model.
std::string words(const Volume& volume, double one) {
  std::string text;
  const auto add = [&](double bytes, const char* name) {
    if (bytes > 0) {
      text += fmt::format("{}{:g} {}", text.empty() ? "" : ", ", std::round(bytes / one), name);
    }
  };
  add(volume.all_gather, "all-gather");
  add(volume.reduce_scatter, "reduce-scatter");
  add(volume.all_reduce / 2, "all-reduce");
  add(volume.reduce, "reduce");
  return text;
}

// The capacity that the scenario names, by GPU or by machine.
void add_capacity(const Scenario& s, ParamsTables& tables) {
  if (s.gpu && s.cluster) {
    throw InputError(s.where("gpu"), "give a GPU or a cluster, not both");
  }
  if (s.gpu) {
    const Gpu gpu = load_gpu(*s.gpu);
    tables.gpu = gpu.full_name;
    tables.capacity = gpu.memory_bytes;
  } else if (s.cluster) {
    const Gpu gpu = resolve_cluster(s).machine.gpu;
    tables.gpu = gpu.full_name;
    tables.capacity = gpu.memory_bytes;
  }
}

// Only what the tables use may be said: a sequence length would be ignored in silence.
void refuse_what_needs_a_model(const Scenario& s) {
  const auto allowed = [](const std::string& key) {
    for (const char* name : {"params", "gpus", "nodes", "gpus_per_node", "cluster", "gpu",
                             "strategy", "sharding_strategy", "shard_group", "accumulation"}) {
      if (key == name) return true;
    }
    return false;
  };
  visit_scenario(s, [&](const KeyInfo& key, const auto& field) {
    if (field && !allowed(key.name)) {
      throw InputError(s.where(key.name),
                       "needs a model; a parameter count alone has no " + std::string(key.name));
    }
  });
}

Partition partition_of(StrategyKind kind) {
  switch (kind) {
    case StrategyKind::dp:
    case StrategyKind::ddp: return Partition::nothing;
    case StrategyKind::zero1: return Partition::optimizer;
    case StrategyKind::zero2: return Partition::optimizer_and_gradients;
    case StrategyKind::zero3:
    case StrategyKind::fsdp1:
    case StrategyKind::fsdp2:
    case StrategyKind::hsdp: return Partition::everything;
  }
  return Partition::nothing;
}

void answer_fit(const Scenario& s, std::int64_t gpus_per_node, ParamsTables& tables) {
  // Nothing asked about: whether anything at all fits, which is whether full sharding does.
  const bool asked = s.strategy || s.sharding_strategy;
  const StrategyKind kind = asked ? resolve_strategy(s).kind : StrategyKind::fsdp2;
  if (asked) tables.strategy = to_string(kind);
  if (tables.capacity == 0) return;
  FitQuestion question;
  question.parameters = tables.parameters;
  question.partition = partition_of(kind);
  question.recipe = mixed_16bit();
  question.gpus = tables.gpus;
  question.shard_group = kind == StrategyKind::hsdp ? tables.shard_group : 0;
  question.gpus_per_node = gpus_per_node;
  question.capacity = tables.capacity;
  const FitAnswer answer = smallest_change_that_fits(question);
  (answer.fits ? tables.fit : tables.infeasible) = answer.sentence;
}

std::string gigabytes(double bytes) { return fmt::format("{:.6g}", bytes / 1e9); }

}  // namespace

std::vector<VolumeRow> volume_table(std::int64_t parameters, std::int64_t gpus,
                                    std::int64_t shard_group, int accumulation) {
  std::vector<VolumeRow> rows;
  VolumeOptions options;
  options.parameters = static_cast<double>(parameters);
  options.ranks = static_cast<int>(gpus);
  options.micro_batches = accumulation;
  const auto with_reduce = [](VolumeOptions o, double bytes) {
    o.reduce_bytes = bytes;
    return o;
  };
  const double one = ring_all_gather_bytes(2 * options.parameters, options.ranks);
  const auto add = [&](std::string name, VolumeStrategy strategy, VolumeSync sync) {
    options.sync = sync;
    const Volume volume = strategy_volume(options, strategy);
    rows.push_back({std::move(name), words(volume, one), volume.total(),
                    strategy_volume(with_reduce(options, 4), strategy).total(), 0.0});
  };
  const bool several = accumulation > 1;
  const std::string every = several ? ", sync every" : "";
  const auto both = [&](const std::string& name, VolumeStrategy strategy) {
    if (several) add(name, strategy, VolumeSync::last);
    add(name + every, strategy, VolumeSync::every);
  };
  both("ddp", VolumeStrategy::ddp);
  add("zero1", VolumeStrategy::zero1, several ? VolumeSync::last : VolumeSync::every);
  add("zero2", VolumeStrategy::zero2, VolumeSync::every);
  add("zero3", VolumeStrategy::zero3, VolumeSync::every);
  both("fsdp2, full_shard", VolumeStrategy::full_shard);
  both("shard_grad_op", VolumeStrategy::shard_grad_op);
  both("fsdp2 reshard false", VolumeStrategy::no_reshard);
  if (gpus > shard_group) {
    options.sync = several ? VolumeSync::last : VolumeSync::every;
    const int shards = static_cast<int>(shard_group);
    const int replicas = static_cast<int>(gpus / shard_group);
    const HybridVolume half = hybrid_volume(options, shards, replicas);
    const HybridVolume full = hybrid_volume(with_reduce(options, 4), shards, replicas);
    rows.push_back({"hsdp", "fsdp2's in the group, 1 all-reduce", half.intra + half.inter,
                    full.intra + full.inter, half.inter});
  }
  return rows;
}

ParamsTables params_tables(const Scenario& s) {
  check_ranges(s);
  refuse_what_needs_a_model(s);
  ParamsTables tables;
  tables.parameters = std::llround(s.params.value());
  tables.accumulation = static_cast<int>(s.accumulation.value_or(1));
  std::int64_t per_node = s.gpus_per_node.value_or(8);
  if (s.cluster) {
    const Cluster cluster = resolve_cluster(s);
    tables.gpus = cluster.world_size;
    per_node = cluster.gpus_per_node;
  } else if (s.gpus) {
    if (s.nodes) throw InputError(s.where("nodes"), "needs a cluster; give gpus alone");
    tables.gpus = *s.gpus;
  } else {
    throw InputError(s.where("gpus"), "no number of GPUs given");
  }
  tables.shard_group = s.shard_group.value_or(
      default_shard_group(static_cast<int>(tables.gpus), static_cast<int>(per_node)));
  if (tables.gpus % tables.shard_group != 0) {
    throw InputError(s.where("shard_group"), fmt::format("{} does not divide the {} GPUs",
                                                         tables.shard_group, tables.gpus));
  }
  TableSizes sizes;
  sizes.parameters = tables.parameters;
  sizes.world = tables.gpus;
  sizes.shard_group = tables.shard_group;
  tables.memory = state_table(sizes);
  tables.volumes =
      volume_table(tables.parameters, tables.gpus, tables.shard_group, tables.accumulation);
  add_capacity(s, tables);
  answer_fit(s, per_node, tables);
  return tables;
}

std::string to_text(const ParamsTables& t) {
  std::string text = fmt::format(
      "{} parameters on {} GPUs, hsdp shard group {}{}\n"
      "no time: a parameter count has no layers, so no kernels, buckets or units; give a model\n\n",
      human_count(static_cast<double>(t.parameters)), t.gpus, t.shard_group,
      t.accumulation > 1 ? fmt::format(", {} micro-batches a step", t.accumulation) : "");
  text += fmt::format("{:<24}{:<26}{:>9}{:>9}{:>9}{:>9}{:>12}\n", "states a GPU, GB", "recipe",
                      "params", "grads", "optim", "sum", "with extras");
  for (const StateRow& row : t.memory) {
    text += fmt::format("{:<24}{:<26}{:>9}{:>9}{:>9}{:>9}{:>12}\n", row.strategy, row.recipe,
                        gigabytes(static_cast<double>(row.framework.parameters)),
                        gigabytes(static_cast<double>(row.framework.gradients)),
                        gigabytes(static_cast<double>(row.framework.optimizer)),
                        gigabytes(static_cast<double>(row.framework.total())),
                        gigabytes(static_cast<double>(row.framework_in_step())));
  }
  text += fmt::format("\n{:<32}{:<40}{:>10}{:>14}\n", "sent a GPU and step, GB",
                      "collectives of the whole model", "16 bit", "fp32 reduced");
  for (const VolumeRow& row : t.volumes) {
    text += fmt::format("{:<32}{:<40}{:>10}{:>14}\n", row.strategy, row.collectives,
                        gigabytes(row.bytes_16bit), gigabytes(row.bytes_fp32_reduce));
    if (row.inter_node > 0) {
      text += fmt::format("{:<32}{:<40}{:>10}\n", "", "of it between groups: the all-reduce",
                          gigabytes(row.inter_node));
    }
  }
  if (!t.gpu.empty()) {
    text += fmt::format("\n{}: {} GB\n", t.gpu, gigabytes(static_cast<double>(t.capacity)));
    for (const StateRow& row : t.memory) {
      const bool fits = row.framework_always() <= t.capacity;
      if (!fits) {
        text += fmt::format("  {} ({}): states alone do not fit\n", row.strategy, row.recipe);
      }
    }
  }
  if (!t.fit.empty()) {
    text += fmt::format("  {} {}\n", t.strategy.empty() ? "full sharding" : t.strategy, t.fit);
  }
  return text;
}

}  // namespace stepcast
