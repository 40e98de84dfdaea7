// DeepSpeed's zero_optimization: the stages, their buckets, and what is refused of them.
//
// DeepSpeed ignores keys of other stages; so do we, and say so (irrelevant). Older forms that are
// still met: "zero_optimization": true (stage 1), "cpu_offload": true,
// "stage3_gather_fp16_weights_on_model_save".
//
// Source: deepspeed/runtime/zero/config.py of 0.19.6 (docs/sources.md 1.5 and 1.6). Tested by
// tests/unit/jobs/deepspeed_test.cpp and, file by file, tests/interop.

#include <fmt/format.h>

#include "sim/jobs/deepspeed_parts.hpp"

namespace stepcast::jobs {

namespace {

constexpr double most_elements = 1e15;

// "device": "cpu" or "nvme" of offload_optimizer and offload_param.
void refuse_offload(Section& zero, Section::Names names, const std::string& what) {
  const Value* value = zero.take(names);
  if (value == nullptr) return;
  const Source from = zero.source(names);
  if (!value->is_map()) {
    if (truth(*value, from.where)) {
      zero.job().unsupported.push_back(
          {from.where, fmt::format("CPU offload of {} is not simulated", what), "", true});
    }
    return;
  }
  std::optional<Section> offload = zero.section(names);
  if (!offload) return;
  const auto device = offload->word({"device"});
  offload->irrelevant({"pin_memory", "buffer_count", "buffer_size", "max_in_cpu", "nvme_path",
                       "fast_init", "pipeline", "pipeline_read", "pipeline_write", "ratio",
                       "super_offload", "cpuadam_cores_perc"});
  offload->close();
  if (!device) return;
  const std::string where = choice(*device, {"none", "cpu", "nvme"});
  if (where == "none") return;
  zero.job().unsupported.push_back({device->source.where,
                                    fmt::format("offload of {} to {} is not simulated", what,
                                                where == "cpu" ? "the CPU" : "NVMe"),
                                    "", true});
}

template <typename T>
void take_integer(Section& zero, Section::Names names, const char* key,
                  std::optional<T> Scenario::*field, double least) {
  if (const auto read = zero.integer(names, least, most_elements)) {
    zero.job().set(key, field, read->value, read->source);
  }
}

void take_auto(Section& zero, Section::Names names, const char* key, AutoRule rule) {
  if (!zero.is_auto(names)) return;
  zero.job().autos[key] = {rule, zero.source(names)};
}

void take_boolean(Section& zero, Section::Names names, const char* key,
                  std::optional<bool> Scenario::*field) {
  if (const auto read = zero.boolean(names)) zero.job().set(key, field, read->value, read->source);
}

// Keys of stages 1 and 2 that stage 3 does not read, and the reverse.
const std::vector<std::string>& keys_of_stage_3() {
  static const std::vector<std::string> keys{"stage3_max_live_parameters",
                                             "max_live_parameters",
                                             "stage3_max_reuse_distance",
                                             "max_reuse_distance",
                                             "stage3_prefetch_bucket_size",
                                             "prefetch_bucket_size",
                                             "stage3_param_persistence_threshold",
                                             "param_persistence_threshold",
                                             "stage3_model_persistence_threshold",
                                             "model_persistence_threshold",
                                             "stage3_module_granularity_threshold",
                                             "module_granularity_threshold",
                                             "sub_group_size",
                                             "zero_hpz_partition_size",
                                             "stage3_allgather_sequential",
                                             "allgather_sequential",
                                             "stage3_use_all_reduce_for_fetch_params",
                                             "use_all_reduce_for_fetch_params",
                                             "leaf_module",
                                             "fast_sharding_for_leaf_module"};
  return keys;
}

void read_stage_3(Section& zero) {
  Job& job = zero.job();
  take_integer(zero, {"stage3_max_live_parameters", "max_live_parameters"},
               "stage3_max_live_parameters", &Scenario::stage3_max_live_parameters, 0);
  take_integer(zero, {"stage3_max_reuse_distance", "max_reuse_distance"},
               "stage3_max_reuse_distance", &Scenario::stage3_max_reuse_distance, 0);
  const Section::Names prefetch{"stage3_prefetch_bucket_size", "prefetch_bucket_size"};
  take_auto(zero, prefetch, "stage3_prefetch_bucket_size", AutoRule::nine_tenths_hidden_squared);
  take_integer(zero, prefetch, "stage3_prefetch_bucket_size",
               &Scenario::stage3_prefetch_bucket_size, 0);
  const Section::Names persistence{"stage3_param_persistence_threshold",
                                   "param_persistence_threshold"};
  take_auto(zero, persistence, "stage3_param_persistence_threshold", AutoRule::ten_hidden);
  take_integer(zero, persistence, "stage3_param_persistence_threshold",
               &Scenario::stage3_param_persistence_threshold, 0);
  const auto persistent_model = zero.integer(
      {"stage3_model_persistence_threshold", "model_persistence_threshold"}, 0, 9.3e18);
  if (persistent_model && persistent_model->value == 0) {
    job.set("stage3_param_persistence_threshold", &Scenario::stage3_param_persistence_threshold, 0,
            persistent_model->source);
    job.autos.erase("stage3_param_persistence_threshold");
  } else if (persistent_model && static_cast<double>(persistent_model->value) < most_elements) {
    job.unsupported.push_back({persistent_model->source.where,
                               "a limit on all persistent parameters together is not simulated; "
                               "stage3_param_persistence_threshold is",
                               "stage3_param_persistence_threshold", true});
  }
  take_integer(zero, {"sub_group_size"}, "sub_group_size", &Scenario::sub_group_size, 1e5);
  take_integer(zero, {"zero_hpz_partition_size"}, "zero_hpz_partition_size",
               &Scenario::zero_hpz_partition_size, 1);
  const auto granularity = zero.integer(
      {"stage3_module_granularity_threshold", "module_granularity_threshold"}, 0, most_elements);
  if (granularity && granularity->value > 0) {
    job.unsupported.push_back({granularity->source.where,
                               "fetching modules in granules is not simulated; leaf_layers, a "
                               "fetch a layer, is",
                               "leaf_layers", true});
  }
  zero.refuse_true({"stage3_use_all_reduce_for_fetch_params", "use_all_reduce_for_fetch_params"},
                   "all-reduce in place of all-gather for parameters is not simulated", true);
  zero.refuse_true({"stage3_allgather_sequential", "allgather_sequential"},
                   "all-gathers one parameter after the other are not simulated", true);
  if (auto leaf = zero.section({"leaf_module"})) {
    if (leaf->has({"classes", "names", "name_suffixes"})) {
      job.approximate.push_back({leaf->where("classes"),
                                 "leaf modules are taken to be whole layers", "leaf_layers", true});
      job.set("leaf_layers", &Scenario::leaf_layers, true, zero.source({"leaf_module"}));
    }
    leaf->irrelevant({"classes", "names", "name_suffixes"});
    leaf->close();
  }
  zero.irrelevant({"fast_sharding_for_leaf_module"});
}
}  // namespace

void read_zero(Section& root) {
  Job& job = root.job();
  const Value* said = root.take({"zero_optimization"});
  if (said == nullptr) {
    set_stage(job, 0, standard(job, "DeepSpeed's default: no zero_optimization"));
    return;
  }
  if (!said->is_map()) {  // DeepSpeed 0.1
    const Source from = root.source({"zero_optimization"});
    set_stage(job, truth(*said, from.where) ? 1 : 0, from);
    root.irrelevant({"allgather_size"});
    return;
  }
  Section zero(*said,
               root.path().empty() ? "zero_optimization" : root.path() + ".zero_optimization", job);
  const auto read = zero.integer({"stage"}, 0, 3);
  const std::int64_t stage = read ? read->value : 0;
  set_stage(job, stage, read ? read->source : standard(job, "DeepSpeed's default: stage 0"));

  if (stage > 0) {
    refuse_offload(zero, {"offload_optimizer", "cpu_offload"}, "the optimizer's state");
  } else {
    zero.irrelevant({"offload_optimizer", "cpu_offload"});
  }
  if (stage == 3) {
    refuse_offload(zero, {"offload_param", "cpu_offload_params", "cpu_offload_param"},
                   "parameters");
  } else {
    zero.irrelevant({"offload_param", "cpu_offload_params", "cpu_offload_param"});
  }
  if (stage > 0) {
    take_auto(zero, {"reduce_bucket_size"}, "reduce_bucket_size", AutoRule::hidden_squared);
    take_integer(zero, {"reduce_bucket_size"}, "reduce_bucket_size", &Scenario::reduce_bucket_size,
                 1);
    take_boolean(zero, {"overlap_comm"}, "overlap_comm", &Scenario::overlap_comm);
  }
  if (stage == 1 || stage == 2) {
    take_boolean(zero, {"contiguous_gradients"}, "contiguous_gradients",
                 &Scenario::contiguous_gradients);
    take_boolean(zero, {"reduce_scatter"}, "reduce_scatter", &Scenario::reduce_scatter);
    take_boolean(zero, {"use_multi_rank_bucket_allreduce"}, "use_multi_rank_bucket_allreduce",
                 &Scenario::use_multi_rank_bucket_allreduce);
  }
  if (stage == 3) {
    read_stage_3(zero);
  } else {
    zero.irrelevant(keys_of_stage_3());
  }
  const std::string quantized = "ZeRO++'s quantized collectives are not simulated; hpZ is";
  for (const char* key : {"zero_quantized_weights", "zero_quantized_gradients",
                          "zero_quantized_nontrainable_weights"}) {
    zero.refuse_true({key}, quantized, true);
  }
  zero.refuse_any({"zeropp_loco_param"}, quantized, true);
  zero.refuse_any({"zenflow"}, "ZenFlow is not simulated", true);
  const auto mics = zero.integer({"mics_shard_size"}, -1, 1e7);
  if (mics && mics->value > 0) {
    job.unsupported.push_back(
        {mics->source.where, "MiCS is not simulated; hpZ (zero_hpz_partition_size) is", "", true});
  }
  // How a step runs today does not depend on these; some say what checkpoints hold.
  zero.irrelevant({"allgather_partitions", "allgather_bucket_size", "allgather_size",
                   "round_robin_gradients", "load_from_fp32_weights", "elastic_checkpoint",
                   "ignore_unused_parameters", "legacy_stage1", "cpu_offload_use_pin_memory",
                   "mics_hierarchical_params_gather", "memory_efficient_linear",
                   "override_module_apply", "log_trace_cache_warnings", "enable_sanity_checks",
                   "pipeline_loading_checkpoint", "save_muon_momentum_buffer_in_memory",
                   "gather_16bit_weights_on_model_save", "gather_fp16_weights_on_model_save",
                   "stage3_gather_16bit_weights_on_model_save",
                   "stage3_gather_fp16_weights_on_model_save", "zero_allow_untested_optimizer",
                   // read under other stages only
                   "reduce_bucket_size", "overlap_comm", "contiguous_gradients", "reduce_scatter",
                   "use_multi_rank_bucket_allreduce"});
  zero.close();
}

}  // namespace stepcast::jobs
