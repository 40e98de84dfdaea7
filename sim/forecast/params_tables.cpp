#include "sim/forecast/params_tables.hpp"

#include <fmt/format.h>

#include <cmath>

#include "base/error.hpp"
#include "sim/forecast/resolve.hpp"

namespace stepcast {

namespace {

// How often each collective of the whole model runs in a step.
struct Calls {
  int all_gather = 0;
  int reduce_scatter = 0;
  int all_reduce = 0;
};

std::string words(const Calls& calls) {
  std::string text;
  const auto add = [&](int count, const char* name) {
    if (count > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, name);
  };
  add(calls.all_gather, "all-gather");
  add(calls.reduce_scatter, "reduce-scatter");
  add(calls.all_reduce, "all-reduce");
  return text;
}

double share(std::int64_t ranks) {
  return static_cast<double>(ranks - 1) / static_cast<double>(ranks);
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
  std::vector<std::string> notes;
  // Nothing asked about: whether anything at all fits, which is whether full sharding does.
  const bool asked = s.strategy || s.sharding_strategy;
  const StrategyKind kind = asked ? resolve_strategy(s, notes).kind : StrategyKind::fsdp2;
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
  const double s = 2.0 * static_cast<double>(parameters);  // bytes of the model in 16 bit
  const int m = accumulation;
  const auto add = [&](std::string strategy, Calls calls) {
    const double gathered = share(gpus) * s * calls.all_gather;
    const double reduced = share(gpus) * s * (calls.reduce_scatter + 2 * calls.all_reduce);
    rows.push_back(
        {std::move(strategy), words(calls), gathered + reduced, gathered + 2 * reduced, 0.0});
  };
  add("ddp", {0, 0, 1});
  if (m > 1) add("ddp, sync every", {0, 0, m});
  add("zero1", {1, 0, 1});
  add("zero2", {1, 0, m});
  add("zero3", {2 * m, m, 0});
  add("fsdp2, full_shard", {2 * m, 1, 0});
  if (m > 1) add("fsdp2, full_shard, sync every", {2 * m, m, 0});
  add("shard_grad_op", {1, 1, 0});
  if (m > 1) add("shard_grad_op, sync every", {m, m, 0});
  add("fsdp2 reshard false", {m, 1, 0});
  if (gpus > shard_group) {
    // Within the group as fsdp2; then the shard is all-reduced among the groups.
    const double intra = share(shard_group) * s * (2 * m);
    const double scattered = share(shard_group) * s;
    const double inter = 2 * share(gpus / shard_group) * s / static_cast<double>(shard_group);
    rows.push_back({"hsdp", words({2 * m, 1, 1}), intra + scattered + inter,
                    intra + 2 * (scattered + inter), inter});
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
      "{:.6g} parameters on {} GPUs, hsdp shard group {}{}\n"
      "no time: a parameter count has no layers, so no kernels, buckets or units; give a model\n\n",
      static_cast<double>(t.parameters), t.gpus, t.shard_group,
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
