#include "sim/forecast/compared.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/error.hpp"
#include "sim/report/format.hpp"

namespace stepcast {
namespace {

template <std::size_t Count>
bool is_one_of(const std::string& key, const char* const (&list)[Count]) {
  return std::find(std::begin(list), std::end(list), key) != std::end(list);
}

constexpr const char* of_sizes[] = {"model",         "params",      "gpus",
                                    "nodes",         "cluster",     "gpu",
                                    "gpus_per_node", "shard_group", "accumulation"};
// What the activations depend on.
constexpr const char* of_layers[] = {"seq_len",       "image_size",      "micro_batch",
                                     "checkpointing", "fused_attention", "channels_last",
                                     "profile"};
// Of the machine, for the messages that NCCL routes.
constexpr const char* of_network[] = {"fabric",   "network",        "oversubscription",
                                      "nic_gbps", "gpudirect_rdma", "nccl_version"};

// A key that changes nothing would be ignored in silence.
void refuse_unused_keys(const Scenario& s) {
  visit_scenario(s, [&](const KeyInfo& key, const auto& field) {
    if (!field || is_one_of(key.name, of_sizes)) return;
    if (is_one_of(key.name, of_layers) || is_one_of(key.name, of_network)) {
      if (s.model && s.cluster) return;
      throw InputError(s.where(key.name), "needs a model and a cluster");
    }
    throw InputError(s.where(key.name),
                     "does not apply: all strategies are compared, each as it comes");
  });
}

void add_gpus(const Scenario& s, Compared& c) {
  if (s.cluster) {
    c.cluster = resolve_cluster(s);
    c.gpus = c.cluster->world_size;
    c.gpus_per_node = c.cluster->gpus_per_node;
    c.gpu = c.cluster->machine.gpu.full_name;
    c.capacity = c.cluster->machine.gpu.memory_bytes;
    if (s.gpu) throw InputError(s.where("gpu"), "give a GPU or a cluster, not both");
    return;
  }
  c.gpus_per_node = s.gpus_per_node.value_or(8);
  if (s.gpus && s.nodes) throw InputError(s.where("nodes"), "give nodes or gpus, not both");
  if (!s.gpus && !s.nodes) throw InputError(s.where("gpus"), "no number of GPUs given");
  c.gpus = s.gpus ? *s.gpus : *s.nodes * c.gpus_per_node;
  if (s.gpu) {
    const Gpu gpu = load_gpu(*s.gpu);
    c.gpu = gpu.full_name;
    c.capacity = gpu.memory_bytes;
  }
}

}  // namespace

std::vector<std::string> compared_keys() {
  std::vector<std::string> keys(std::begin(of_sizes), std::end(of_sizes));
  keys.insert(keys.end(), std::begin(of_layers), std::end(of_layers));
  keys.insert(keys.end(), std::begin(of_network), std::end(of_network));
  return keys;
}

Scenario only_compared(Scenario scenario) {
  const std::vector<std::string> keys = compared_keys();
  visit_scenario(scenario, [&](const KeyInfo& key, auto& field) {
    if (std::find(keys.begin(), keys.end(), key.name) == keys.end()) field.reset();
  });
  return scenario;
}

Compared compared(const Scenario& s) {
  check_ranges(s);
  if (s.model && s.params) {
    throw InputError(s.where("params"), "give a model or a parameter count, not both");
  }
  if (!s.model && !s.params) {
    throw InputError(s.where("model"), "give a model, or a parameter count with params");
  }
  refuse_unused_keys(s);
  Compared c;
  if (s.model) {
    c.loaded = load_model(scenario_path(s, "model", *s.model), s.seq_len.value_or(0),
                          s.image_size.value_or(0));
    c.model = c.loaded->name;
    c.parameters = c.loaded->parameter_elements();
  } else {
    c.parameters = std::llround(*s.params);
  }
  c.accumulation = static_cast<int>(s.accumulation.value_or(1));
  add_gpus(s, c);
  c.shard_group = s.shard_group.value_or(
      default_shard_group(static_cast<int>(c.gpus), static_cast<int>(c.gpus_per_node)));
  if (c.shard_group > c.gpus || c.gpus % c.shard_group != 0) {
    throw InputError(s.where("shard_group"),
                     fmt::format("{} does not divide the {} GPUs", c.shard_group, c.gpus));
  }
  return c;
}

std::vector<StrategyVariant> compared_strategies(const Compared& c) {
  std::vector<StrategyVariant> list = {
      {"ddp", StrategyKind::ddp, nullptr},
      {"zero1", StrategyKind::zero1, nullptr},
      {"zero2", StrategyKind::zero2, nullptr},
      {"zero3", StrategyKind::zero3, nullptr},
      {"fsdp1 NO_SHARD", StrategyKind::fsdp1, "NO_SHARD"},
      {"fsdp1 SHARD_GRAD_OP", StrategyKind::fsdp1, "SHARD_GRAD_OP"},
      {"fsdp1 FULL_SHARD", StrategyKind::fsdp1, "FULL_SHARD"},
      {"fsdp2", StrategyKind::fsdp2, nullptr},
      {"hsdp", StrategyKind::hsdp, nullptr},
  };
  if (c.has_dp()) list.push_back({"dp", StrategyKind::dp, nullptr});
  if (c.has_hpz()) list.push_back({"zero3 hpZ", StrategyKind::zero3, nullptr, true});
  return list;
}

Scenario with_strategy(const Scenario& scenario, const StrategyVariant& variant,
                       std::int64_t shard_group) {
  Scenario s = scenario;
  s.strategy = std::string(to_string(variant.kind));
  if (variant.sharding != nullptr) s.sharding_strategy = variant.sharding;
  if (variant.kind != StrategyKind::hsdp) s.shard_group.reset();
  if (variant.hpz) s.zero_hpz_partition_size = shard_group;
  return s;
}

std::string head_of(const Compared& c) {
  const std::int64_t nodes = c.nodes();
  return fmt::format(
      "{}{} parameters on {} GPU{}, {} node{} of {}; shard group {}{}\n",
      c.model.empty() ? "" : c.model + ": ", human_count(static_cast<double>(c.parameters)), c.gpus,
      c.gpus == 1 ? "" : "s", nodes, nodes == 1 ? "" : "s", std::min(c.gpus, c.gpus_per_node),
      c.shard_group,
      c.accumulation > 1 ? fmt::format("; {} micro-batches a step", c.accumulation) : "");
}

std::string left_out_of(const Compared& c) {
  std::string text;
  if (!c.has_dp()) text += "dp (one process, so one node)";
  if (!c.has_hpz()) {
    text += text.empty() ? "" : ", ";
    text += "zero3 hpZ (needs a shard group below all GPUs)";
  }
  return text.empty() ? "" : "no row: " + text;
}

}  // namespace stepcast
