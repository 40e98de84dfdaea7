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
#include <utility>
#include <vector>

#include "base/error.hpp"

namespace stepcast {

// true, false, or a number of ranks.
struct YesNoOrCount {
  bool yes = true;
  std::int64_t count = 0;  // 0: no number was said
  friend bool operator==(const YesNoOrCount& a, const YesNoOrCount& b) = default;
};

struct Scenario {
  // what is trained
  std::optional<std::string> model;
  std::optional<double> params;
  std::optional<std::int64_t> seq_len, image_size, micro_batch, accumulation;
  std::optional<std::string> checkpointing, precision, fp8;
  std::optional<bool> fused_attention, channels_last;
  std::optional<std::string> optimizer;
  std::optional<bool> clip_grad_norm;
  // what it runs on
  std::optional<std::string> cluster, gpu;
  std::optional<std::int64_t> nodes, gpus, gpus_per_node, leaf_ports;
  std::optional<std::string> fabric, network;
  std::optional<double> oversubscription, nic_gbps;
  std::optional<bool> gpudirect_rdma;
  // where its data comes from
  std::optional<std::int64_t> loader_workers, loader_prefetch, sample_bytes;
  std::optional<double> loader_sample_ms, storage_gbps;
  // how it is parallel
  std::optional<std::string> strategy, sharding_strategy;
  std::optional<std::int64_t> shard_group;
  std::optional<double> bucket_cap_mb, first_bucket_mb;
  std::optional<bool> loss_in_forward;
  std::optional<bool> gradient_as_bucket_view, reshard_after_backward;
  std::optional<std::string> ddp_bucket_rule, comm_hook;
  std::optional<std::vector<double>> bucket_cap_mb_list, unused_on_ranks;
  std::optional<std::vector<std::string>> unused_parameters;
  std::optional<bool> ddp_set_last_bucket_cap, batched_grad_copy;
  std::optional<bool> find_unused_parameters, static_graph, broadcast_buffers;
  std::optional<bool> zero_grad_set_to_none, join_divide_by_initial_world_size;
  std::optional<std::int64_t> powersgd_rank, join_early_ranks;
  std::optional<double> powersgd_min_compression_rate;
  std::optional<YesNoOrCount> reshard_after_forward;
  std::optional<std::int64_t> forward_prefetch_units, backward_prefetch_units;
  std::optional<bool> unshard_embedding_in_backward, keep_last_block, checkpoint_outside_unit;
  std::optional<bool> separate_reduce_scatter_group, fp8_all_gather, fp8_precompute_scale;
  std::optional<std::string> wrap, accumulation_sync;
  std::optional<std::string> backward_prefetch;
  std::optional<bool> forward_prefetch, limit_all_gathers, use_orig_params;
  std::optional<std::int64_t> reduce_bucket_size, stage3_prefetch_bucket_size;
  std::optional<std::int64_t> stage3_param_persistence_threshold, stage3_max_live_parameters;
  std::optional<std::int64_t> stage3_max_reuse_distance, sub_group_size, zero_hpz_partition_size;
  std::optional<std::int64_t> wrap_min_params;
  std::optional<bool> overlap_comm, contiguous_gradients, use_multi_rank_bucket_allreduce;
  std::optional<bool> reduce_scatter;
  std::optional<bool> leaf_layers;
  std::optional<std::int64_t> replica_gpus, replica_inner;
  std::optional<double> replica_step_ms, replica_forward_share;
  // how it is forecast
  std::optional<std::string> engine, profile, nccl_version, nccl, measured_collectives, step;
  std::optional<std::string> calibration;
  std::optional<bool> sync_every_step, sync_after_forward, collective_corrections;
  std::optional<std::vector<std::string>> perturb;
  std::optional<double> nccl_timeout;
  std::optional<bool> expandable_segments;
  std::optional<double> max_split_size_mb;

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

// The keys of one group of flags.
struct KeyGroup {
  const char* group;

  KeyInfo word(const char* name, const char* help) const { return {name, group, help, 0, 0, {}}; }
  KeyInfo range(const char* name, const char* help, double min, double max) const {
    return {name, group, help, min, max, {}};
  }
  KeyInfo choice(const char* name, const char* help, std::vector<std::string> accepted) const {
    return {name, group, help, 0, 0, std::move(accepted)};
  }
};

template <typename AnyScenario, typename Visitor>
void visit_scenario(AnyScenario& s, Visitor&& visit) {
  const KeyGroup model{"Model"}, cluster{"Cluster"}, strategy{"Strategy"}, forecast{"Forecast"};
  const KeyGroup loading{"Data loading"}, perturbing{"Perturbations"}, replicas{"Replicas"};
  visit(model.word("model", "catalog name, Hugging Face config.json, or model TOML"), s.model);
  visit(model.range("params", "parameter count instead of a model: tables without a time", 1, 1e15),
        s.params);
  visit(model.range("seq_len", "tokens a sequence (default: the model's)", 1, 1e9), s.seq_len);
  visit(model.range("image_size", "pixels a side of an image (default: the model's)", 32, 16384),
        s.image_size);
  visit(model.range("micro_batch", "sequences or images a GPU and micro-batch (default 1)", 1, 1e9),
        s.micro_batch);
  visit(model.range("accumulation", "micro-batches a step (default 1)", 1, 32000), s.accumulation);
  visit(model.choice("checkpointing", "activation checkpointing (default none)",
                     {"none", "selective", "full", "selective-op"}),
        s.checkpointing);
  visit(model.word("precision", "precision recipe (default: the strategy's)"), s.precision);
  visit(model.choice("fp8", "linear layers in fp8, by recipe, beside the precision (default none)",
                     {"none", "te-delayed", "torchao-tensorwise"}),
        s.fp8);
  visit(model.word("fused_attention", "FlashAttention, or scores through memory (default true)"),
        s.fused_attention);
  visit(model.word("channels_last",
                   "resnet: images and results in NHWC, as tensor cores read them (default false)"),
        s.channels_last);
  visit(model.choice("optimizer", "optimizer and implementation (default: the profile's AdamW)",
                     {"adamw-fused", "adamw-foreach", "adamw-unfused", "sgd-momentum", "sgd"}),
        s.optimizer);
  visit(
      model.word("clip_grad_norm", "clip gradients by their norm before the step (default false)"),
      s.clip_grad_norm);
  visit(cluster.word("cluster", "machine: catalog name or machine TOML"), s.cluster);
  visit(cluster.word("gpu", "GPU whose memory is the limit, with params"), s.gpu);
  visit(cluster.range("nodes", "number of machines", 1, 1e6), s.nodes);
  visit(cluster.range("gpus", "GPUs in all; the last node may be partly filled", 1, 1e7), s.gpus);
  visit(cluster.range("gpus_per_node", "GPUs used of each machine", 1, 1024), s.gpus_per_node);
  visit(cluster.choice("fabric", "network between machines",
                       {"single_switch", "leaf_spine", "rail_optimised", "rail_only", "fat_tree",
                        "dragonfly"}),
        s.fabric);
  visit(cluster.range("leaf_ports", "nodes a leaf, a pod of rails or a group (default 32)", 1, 1e6),
        s.leaf_ports);
  visit(cluster.choice("network", "latency class of the network",
                       {"infiniband", "roce", "efa", "efa-busy", "ethernet", "slingshot"}),
        s.network);
  visit(cluster.range("oversubscription", "downlink over uplink at the leaf (default 1)", 1, 1000),
        s.oversubscription);
  visit(
      cluster.range("nic_gbps", "speed of every NIC, GB/s a direction (400 Gb/s = 50)", 0.001, 1e4),
      s.nic_gbps);
  visit(cluster.word("gpudirect_rdma", "NICs read GPU memory (default: the machine's)"),
        s.gpudirect_rdma);
  visit(loading.range("loader_workers", "DataLoader's num_workers (default 0)", 0, 1024),
        s.loader_workers);
  visit(loading.range("loader_prefetch", "batches a worker reads ahead (default 2)", 1, 1024),
        s.loader_prefetch);
  visit(loading.range("loader_sample_ms", "CPU time of a worker a sample, ms", 1e-6, 1e6),
        s.loader_sample_ms);
  visit(loading.range("sample_bytes", "read a sample (default: 8 a token, 3 a pixel)", 1, 1e10),
        s.sample_bytes);
  visit(loading.range("storage_gbps", "GB/s a node reads, shared by its GPUs' loaders", 1e-3, 1e6),
        s.storage_gbps);
  visit(strategy.choice("strategy", "data-parallel strategy",
                        {"dp", "ddp", "zero1", "zero2", "zero3", "fsdp1", "fsdp2", "hsdp"}),
        s.strategy);
  visit(strategy.choice("accumulation_sync", "when gradients are reduced (default last)",
                        {"last", "every", "reduce_scatter_every"}),
        s.accumulation_sync);
  visit(strategy.word("loss_in_forward", "dp: every GPU computes its own loss (default false)"),
        s.loss_in_forward);
  visit(strategy.range("bucket_cap_mb", "ddp: bucket size, MiB (default 25)", 0.000001, 1e6),
        s.bucket_cap_mb);
  visit(strategy.range("first_bucket_mb", "ddp: first bucket, MiB (default 1)", 0.000001, 1e6),
        s.first_bucket_mb);
  visit(strategy.word("gradient_as_bucket_view",
                      "ddp: gradients are views of buckets (default false)"),
        s.gradient_as_bucket_view);
  visit(
      strategy.choice("ddp_bucket_rule",
                      "ddp: whose rule: by 1.13's and 1.4's the first bucket keeps 1 MiB, by 1.4's "
                      "none is rebuilt (default current)",
                      {"current", "pytorch-1.13", "pytorch-1.4"}),
      s.ddp_bucket_rule);
  visit(strategy.range("bucket_cap_mb_list", "ddp: a cap a bucket, MiB; the last one repeats",
                       0.000001, 1e6),
        s.bucket_cap_mb_list);
  visit(strategy.word("ddp_set_last_bucket_cap",
                      "ddp: the small cap is the last bucket's (default false)"),
        s.ddp_set_last_bucket_cap);
  visit(strategy.word("batched_grad_copy", "ddp: one copy a bucket (default false)"),
        s.batched_grad_copy);
  visit(strategy.word("find_unused_parameters", "ddp (default false)"), s.find_unused_parameters);
  visit(strategy.word("static_graph", "ddp (default false)"), s.static_graph);
  visit(strategy.word("unused_parameters", "ddp: names or globs that get no gradient"),
        s.unused_parameters);
  visit(strategy.range("unused_on_ranks", "ddp: the ranks where (default: all)", 0, 1e7),
        s.unused_on_ranks);
  visit(strategy.choice("comm_hook", "ddp: communication hook (default none)",
                        {"none", "allreduce", "fp16_compress", "bf16_compress", "powerSGD"}),
        s.comm_hook);
  visit(strategy.range("powersgd_rank", "ddp: rank of PowerSGD's factors (default 1)", 1, 4096),
        s.powersgd_rank);
  visit(strategy.range("powersgd_min_compression_rate",
                       "ddp: what PowerSGD must save to compress a tensor (default 2)", 0.001, 1e6),
        s.powersgd_min_compression_rate);
  visit(strategy.range("join_early_ranks", "ddp: run under join(), with so many ranks out of data",
                       0, 1e7),
        s.join_early_ranks);
  visit(strategy.word("join_divide_by_initial_world_size", "ddp under join (default true)"),
        s.join_divide_by_initial_world_size);
  visit(strategy.word("broadcast_buffers", "ddp: rank 0's buffers every forward (default true)"),
        s.broadcast_buffers);
  visit(strategy.word("zero_grad_set_to_none", "ddp, zero1: gradients are freed (default true)"),
        s.zero_grad_set_to_none);
  visit(strategy.word("reshard_after_forward",
                      "fsdp2, hsdp: true, false, or the ranks that gather again (default true)"),
        s.reshard_after_forward);
  visit(strategy.word("reshard_after_backward", "fsdp2, hsdp with accumulation (default true)"),
        s.reshard_after_backward);
  visit(strategy.word("separate_reduce_scatter_group", "fsdp2, hsdp (default false)"),
        s.separate_reduce_scatter_group);
  visit(strategy.word("fp8_all_gather",
                      "fsdp2, hsdp with fp8 torchao-tensorwise: weights travel in fp8 (default "
                      "false)"),
        s.fp8_all_gather);
  visit(strategy.word("fp8_precompute_scale",
                      "the same: one all-reduce of all scales after the optimizer (default false)"),
        s.fp8_precompute_scale);
  visit(strategy.range("forward_prefetch_units",
                       "fsdp2, hsdp: next units gathered ahead by explicit lists (default none)", 0,
                       1e6),
        s.forward_prefetch_units);
  visit(strategy.range("backward_prefetch_units",
                       "fsdp2, hsdp: the same in backward (default the implicit one)", 0, 1e6),
        s.backward_prefetch_units);
  visit(strategy.word("unshard_embedding_in_backward",
                      "fsdp2, hsdp with wrap torchtitan (default true)"),
        s.unshard_embedding_in_backward);
  visit(strategy.word("keep_last_block",
                      "fsdp2, hsdp: the last block is not resharded after forward (default false)"),
        s.keep_last_block);
  visit(strategy.word("checkpoint_outside_unit",
                      "fsdp1, fsdp2, hsdp: the checkpoint wraps the unit (default false)"),
        s.checkpoint_outside_unit);
  visit(strategy.choice("wrap", "fsdp1, fsdp2, hsdp: what one unit is (default block)",
                        {"block", "torchtitan", "size"}),
        s.wrap);
  visit(
      strategy.range("wrap_min_params", "fsdp1 with wrap size: parameters (default 1e8)", 1, 1e15),
      s.wrap_min_params);
  visit(strategy.range("shard_group", "hsdp: GPUs that share one copy (default: a node)", 1, 1e7),
        s.shard_group);
  visit(strategy.choice(
            "sharding_strategy", "fsdp1: PyTorch's name for it",
            {"FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD", "HYBRID_SHARD", "_HYBRID_SHARD_ZERO2"}),
        s.sharding_strategy);
  visit(strategy.choice("backward_prefetch", "fsdp1 (default pre)", {"pre", "post", "none"}),
        s.backward_prefetch);
  visit(strategy.word("forward_prefetch", "fsdp1 (default false)"), s.forward_prefetch);
  visit(strategy.word("limit_all_gathers", "fsdp1 (default true)"), s.limit_all_gathers);
  visit(strategy.word("use_orig_params", "fsdp1 (default true)"), s.use_orig_params);
  visit(strategy.range("reduce_bucket_size", "zero: elements (default 5e8)", 1, 1e15),
        s.reduce_bucket_size);
  visit(strategy.word("overlap_comm", "zero (default true for stage 3, else false)"),
        s.overlap_comm);
  visit(strategy.word("contiguous_gradients", "zero1, zero2 (default true)"),
        s.contiguous_gradients);
  visit(strategy.word("use_multi_rank_bucket_allreduce", "zero1, zero2 (default true)"),
        s.use_multi_rank_bucket_allreduce);
  visit(strategy.word("reduce_scatter", "zero1, zero2 (default true)"), s.reduce_scatter);
  visit(strategy.range("stage3_prefetch_bucket_size", "zero3: elements (default 5e7)", 0, 1e15),
        s.stage3_prefetch_bucket_size);
  visit(strategy.range("stage3_param_persistence_threshold", "zero3: elements (default 1e5)", 0,
                       1e15),
        s.stage3_param_persistence_threshold);
  visit(strategy.range("stage3_max_live_parameters", "zero3: elements (default 1e9)", 0, 1e15),
        s.stage3_max_live_parameters);
  visit(strategy.range("stage3_max_reuse_distance", "zero3: elements (default 1e9)", 0, 1e15),
        s.stage3_max_reuse_distance);
  visit(strategy.range("sub_group_size", "zero3: elements a step of the optimizer (default 1e9)",
                       1e5, 1e15),
        s.sub_group_size);
  visit(strategy.range("zero_hpz_partition_size",
                       "zero3: GPUs that share a secondary copy, ZeRO++ hpZ (default 1, off)", 1,
                       1e7),
        s.zero_hpz_partition_size);
  visit(strategy.word("leaf_layers",
                      "zero3: each layer is one leaf module, fetched at once (default false)"),
        s.leaf_layers);
  visit(replicas.range("replica_gpus",
                       "GPUs that are one replica: tensor, pipeline, context parallel (default 1)",
                       1, 1e6),
        s.replica_gpus);
  visit(replicas.range("replica_inner",
                       "of them neighbours in rank order, the rest outside (default: all)", 1, 1e6),
        s.replica_inner);
  visit(replicas.range("replica_step_ms", "forward and backward of a micro-batch in a replica, ms",
                       1e-3, 1e9),
        s.replica_step_ms);
  visit(replicas.range("replica_forward_share", "of it, the forward (default 1/3)", 0, 1),
        s.replica_forward_share);
  visit(forecast.choice("engine", "simulation engine (default fluid)",
                        {"fluid", "formula", "messages"}),
        s.engine);
  visit(forecast.word("profile", "software profile (default pytorch-eager)"), s.profile);
  visit(forecast.choice("nccl_version", "NCCL whose choices are modelled", {"2.28.9", "2.30.7"}),
        s.nccl_version);
  visit(forecast.word("nccl", "NCCL's variables: NAME=VALUE ..., as NCCL_ALGO=Ring; repeatable"),
        s.nccl);
  visit(forecast.word("measured_collectives", "table of `stepcast nccl import`, before the model"),
        s.measured_collectives);
  visit(forecast.word("collective_corrections",
                      "what networks of this class take beyond NCCL's prediction (default true)"),
        s.collective_corrections);
  visit(forecast.word("calibration",
                      "file of `stepcast calibrate`: what was measured, before the models"),
        s.calibration);
  visit(forecast.choice("step", "which step to report (default steady)", {"steady", "first"}),
        s.step);
  visit(forecast.word("sync_every_step",
                      "the host waits for the GPU after each step (default false)"),
        s.sync_every_step);
  visit(forecast.word("sync_after_forward",
                      "the host reads the loss before each backward (default false)"),
        s.sync_after_forward);
  visit(perturbing.word("perturb",
                        "rank=17:late=5s, rank=17:missing, rank=8-15:slow=0.8, node=3:...; "
                        "links: node=3,nic=2:slow=0.5, ...:down, rail=2:..., rank=17,nvlink:..., "
                        "rank=17,pcie:...; node=3:machine=NAME; all:jitter=0.01/0.05; repeatable"),
        s.perturb);
  visit(perturbing.range("nccl_timeout",
                         "seconds until a stalled collective ends the job "
                         "(default 600)",
                         1, 1e7),
        s.nccl_timeout);
  visit(forecast.word("expandable_segments",
                      "PYTORCH_CUDA_ALLOC_CONF's, of the caching allocator (default false)"),
        s.expandable_segments);
  visit(forecast.range("max_split_size_mb",
                       "the same: blocks above it, MiB, are not split (default: all are)", 21, 1e6),
        s.max_split_size_mb);
}

// "seq_len" -> "--seq-len".
std::string flag_of(const std::string& key);

// Throws InputError naming file, line and key.
Scenario read_scenario(const std::string& path);
Scenario parse_scenario(const std::string& text, const std::string& file);

// Checks the ranges and fixed sets of values that did not come through the TOML reader.
void check_ranges(const Scenario& scenario);

// Without the strategy, its options and its accumulation_sync: to try another one.
Scenario without_strategy(Scenario scenario);

// `over` wins where both say something.
Scenario merged(Scenario base, const Scenario& over);

}  // namespace stepcast
