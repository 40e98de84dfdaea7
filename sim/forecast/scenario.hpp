#pragma once
// Everything a user can say about a step, as they said it: from a TOML file, from flags, or both
// (flags win). Nothing is looked up here; resolve.hpp turns it into a model, a cluster and a
// TrainingStep, and fills in the defaults.
//
//   model = "llama-3-8b"        # the same names as the flags, with _ for -
//   cluster = "dgx-h100"
//   nodes = 16
//   strategy = "fsdp2"
//   seq_len = 8192
//
// visit_scenario() lists every key once: the TOML reader, the flags, the merge and the
// documentation all come from that list, so that none can know a key that another does not.
// Tested by tests/unit/forecast/scenario_test.cpp.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"

namespace stepcast {

struct Scenario {
  // what is trained
  std::optional<std::string> model;
  std::optional<double> params;
  std::optional<std::int64_t> seq_len, micro_batch, accumulation;
  std::optional<std::string> checkpointing, precision;
  std::optional<bool> fused_attention;
  // what it runs on
  std::optional<std::string> cluster, gpu;
  std::optional<std::int64_t> nodes, gpus, gpus_per_node;
  std::optional<std::string> fabric, network;
  std::optional<double> oversubscription, nic_gbps;
  std::optional<bool> gpudirect_rdma;
  // how it is parallel
  std::optional<std::string> strategy, sharding_strategy;
  std::optional<std::int64_t> shard_group;
  std::optional<double> bucket_cap_mb, first_bucket_mb;
  std::optional<bool> gradient_as_bucket_view, reshard_after_forward, reshard_after_backward;
  std::optional<bool> separate_reduce_scatter_group;
  std::optional<std::string> wrap, accumulation_sync;
  // how it is forecast
  std::optional<std::string> engine, profile, nccl_version, step;
  std::optional<bool> sync_every_step;

  std::map<std::string, Where> said;  // where each key was set, for messages

  Where where(const std::string& key) const;  // "scenario.toml:3: key" or "--flag"
};

// What visit_scenario tells about a key. Unused members stay empty.
struct KeyInfo {
  const char* name;   // "seq_len"
  const char* group;  // "Model", "Cluster", "Strategy", "Forecast"
  const char* help;
  double min = 0, max = 0;            // of numbers
  std::vector<std::string> accepted;  // of strings with a fixed set
};

template <typename AnyScenario, typename Visitor>
void visit_scenario(AnyScenario& s, Visitor&& visit) {
  const std::vector<std::string> any;
  constexpr double many = 1e9;
  visit(
      KeyInfo{"model", "Model", "catalog name, Hugging Face config.json, or model TOML", 0, 0, any},
      s.model);
  visit(KeyInfo{"params", "Model", "parameter count instead of a model: tables without a time", 1,
                1e15, any},
        s.params);
  visit(KeyInfo{"seq_len", "Model", "tokens a sequence (default: the model's)", 1, many, any},
        s.seq_len);
  visit(
      KeyInfo{"micro_batch", "Model", "sequences a GPU and micro-batch (default 1)", 1, many, any},
      s.micro_batch);
  visit(KeyInfo{"accumulation", "Model", "micro-batches a step (default 1)", 1, 32000, any},
        s.accumulation);
  visit(KeyInfo{"checkpointing",
                "Model",
                "activation checkpointing (default none)",
                0,
                0,
                {"none", "selective", "full"}},
        s.checkpointing);
  visit(KeyInfo{"precision", "Model", "precision recipe (default: the strategy's)", 0, 0, any},
        s.precision);
  visit(KeyInfo{"fused_attention", "Model",
                "FlashAttention, or scores through memory (default true)", 0, 0, any},
        s.fused_attention);
  visit(KeyInfo{"cluster", "Cluster", "machine: catalog name or machine TOML", 0, 0, any},
        s.cluster);
  visit(KeyInfo{"gpu", "Cluster", "GPU whose memory is the limit, with params", 0, 0, any}, s.gpu);
  visit(KeyInfo{"nodes", "Cluster", "number of machines", 1, 1e6, any}, s.nodes);
  visit(KeyInfo{"gpus", "Cluster", "GPUs in all; the last node may be partly filled", 1, 1e7, any},
        s.gpus);
  visit(KeyInfo{"gpus_per_node", "Cluster", "GPUs used of each machine", 1, 1024, any},
        s.gpus_per_node);
  visit(KeyInfo{"fabric",
                "Cluster",
                "network between machines",
                0,
                0,
                {"single_switch", "leaf_spine", "rail_optimised"}},
        s.fabric);
  visit(KeyInfo{"network",
                "Cluster",
                "latency class of the network",
                0,
                0,
                {"infiniband", "roce", "efa", "ethernet"}},
        s.network);
  visit(KeyInfo{"oversubscription", "Cluster", "downlink over uplink at the leaf (default 1)", 1,
                1000, any},
        s.oversubscription);
  visit(KeyInfo{"nic_gbps", "Cluster", "speed of every NIC, GB/s a direction (400 Gb/s = 50)",
                0.001, 1e4, any},
        s.nic_gbps);
  visit(KeyInfo{"gpudirect_rdma", "Cluster", "NICs read GPU memory (default: the machine's)", 0, 0,
                any},
        s.gpudirect_rdma);
  visit(KeyInfo{"strategy",
                "Strategy",
                "data-parallel strategy",
                0,
                0,
                {"dp", "ddp", "zero1", "zero2", "zero3", "fsdp1", "fsdp2", "hsdp"}},
        s.strategy);
  visit(KeyInfo{"sharding_strategy",
                "Strategy",
                "FSDP1's name for it",
                0,
                0,
                {"FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD", "HYBRID_SHARD", "_HYBRID_SHARD_ZERO2"}},
        s.sharding_strategy);
  visit(KeyInfo{"shard_group", "Strategy", "hsdp: GPUs that share one copy (default: a node)", 1,
                1e7, any},
        s.shard_group);
  visit(KeyInfo{"bucket_cap_mb", "Strategy", "ddp: bucket size, MiB (default 25)", 0.000001, 1e6,
                any},
        s.bucket_cap_mb);
  visit(KeyInfo{"first_bucket_mb", "Strategy", "ddp: first bucket, MiB (default 1)", 0.000001, 1e6,
                any},
        s.first_bucket_mb);
  visit(KeyInfo{"gradient_as_bucket_view", "Strategy",
                "ddp: gradients are views of buckets (default false)", 0, 0, any},
        s.gradient_as_bucket_view);
  visit(KeyInfo{"reshard_after_forward", "Strategy", "fsdp2, hsdp (default true)", 0, 0, any},
        s.reshard_after_forward);
  visit(KeyInfo{"reshard_after_backward", "Strategy",
                "fsdp2, hsdp with accumulation (default true)", 0, 0, any},
        s.reshard_after_backward);
  visit(KeyInfo{"separate_reduce_scatter_group", "Strategy",
                "fsdp2, hsdp: own communicator for reduce-scatter (default false)", 0, 0, any},
        s.separate_reduce_scatter_group);
  visit(KeyInfo{"wrap",
                "Strategy",
                "fsdp2, hsdp: what one unit is (default block)",
                0,
                0,
                {"block", "torchtitan"}},
        s.wrap);
  visit(KeyInfo{"accumulation_sync",
                "Strategy",
                "when gradients are reduced (default last)",
                0,
                0,
                {"last", "every", "reduce_scatter_every"}},
        s.accumulation_sync);
  visit(
      KeyInfo{
          "engine", "Forecast", "simulation engine (default fluid)", 0, 0, {"fluid", "formula"}},
      s.engine);
  visit(KeyInfo{"profile", "Forecast", "software profile (default pytorch-eager)", 0, 0, any},
        s.profile);
  visit(KeyInfo{"nccl_version",
                "Forecast",
                "NCCL whose choices are modelled",
                0,
                0,
                {"2.28.9", "2.30.7"}},
        s.nccl_version);
  visit(
      KeyInfo{
          "step", "Forecast", "which step to report (default steady)", 0, 0, {"steady", "first"}},
      s.step);
  visit(KeyInfo{"sync_every_step", "Forecast",
                "the host waits for the GPU after each step, as loss.item() does (default false)",
                0, 0, any},
        s.sync_every_step);
}

// "seq_len" -> "--seq-len".
std::string flag_of(const std::string& key);

// Throws InputError naming file, line and key.
Scenario read_scenario(const std::string& path);
Scenario parse_scenario(const std::string& text, const std::string& file);

// Checks the ranges and fixed sets of values that did not come through the TOML reader.
void check_ranges(const Scenario& scenario);

// `over` wins where both say something.
Scenario merged(Scenario base, const Scenario& over);

}  // namespace stepcast
