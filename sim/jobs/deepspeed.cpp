// DeepSpeed's JSON.
//
// Defaults are those of DeepSpeed 0.19 and of its documentation: stage 0, buckets of 5e8 elements,
// overlap_comm by stage. stepcast's own defaults for zero1 to zero3 are the same figures, so what
// the file leaves out needs no key.
//
//   stage 0       gradients are all-reduced after the whole backward, in pieces of 5e8 elements;
//                 as DDP with one bucket, whose all-reduce begins when the last gradient is there
//   stages 1 - 3  zero1, zero2, zero3
//
// Older forms that are still met: "zero_optimization": true (stage 1), "cpu_offload": true,
// "stage3_gather_fp16_weights_on_model_save", "bfloat16" for "bf16". DeepSpeed ignores keys of
// other stages; so do we, and say so (irrelevant). A misspelt key is refused: DeepSpeed's own
// parser refuses it in zero_optimization, and elsewhere takes its default in silence.
//
// Source: deepspeed/runtime/config.py, runtime/zero/config.py, runtime/constants.py of 0.19.6
// (docs/sources.md 1.5 and 1.6). Tested by tests/unit/jobs/readers_test.cpp and, file by file,
// tests/interop.

#include <fmt/format.h>

#include "sim/jobs/readers.hpp"

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

// true, false, or nothing where the key is absent or "auto" (which `autos` then counts).
std::optional<Fact<bool>> enabled(Section& root, Section::Names names, int& autos, Source& which,
                                  bool& is_bf16) {
  if (!root.has(names)) {
    root.take(names);
    return std::nullopt;
  }
  const Value* value = root.take(names);
  if (value == nullptr || !value->is_map()) {
    if (root.is_auto(names)) {
      ++autos;
      which = root.source(names);
      return std::nullopt;
    }
    const Source from = root.source(names);
    return Fact<bool>{truth(*value, from.where), from};
  }
  std::optional<Section> section = root.section(names);
  if (!section) return std::nullopt;
  std::optional<Fact<bool>> on;
  // GPT-NeoX's "fp16": {"enabled": true, "type": "bfloat16"}.
  if (const auto type = section->word({"type"})) {
    if (choice(*type, {"fp16", "float16", "bf16", "bfloat16"}).starts_with("b")) is_bf16 = true;
  }
  if (section->is_auto({"enabled"})) {
    section->take({"enabled"});
    ++autos;
    which = section->source({"enabled"});
  } else {
    on = section->boolean({"enabled"});
    if (!on) on = Fact<bool>{false, root.source(names)};
  }
  if (on && on->value) {
    const std::string states =
        "16-bit master weights or optimizer states under ZeRO are not "
        "simulated; precision bf16-master keeps them in fp32";
    section->refuse_true({"bf16_master_weights_and_grads", "fp16_master_weights_and_grads",
                          "master_weights_and_grads"},
                         states);
    section->refuse_true({"bf16_optimizer_states", "optimizer_states"}, states);
  }
  section->irrelevant({"auto_cast", "loss_scale", "loss_scale_window", "initial_scale_power",
                       "hysteresis", "min_loss_scale", "consecutive_hysteresis", "opt_level",
                       "fp16_master_weights_and_grads", "bf16_master_weights_and_grads",
                       "bf16_optimizer_states", "immediate_grad_update", "check_grad_overflow",
                       "fp16", "bf16", "precision"});
  section->close();
  return on;
}

void read_dtype(Section& root) {
  Job& job = root.job();
  int autos = 0;
  Source which;
  bool of_bf16 = true, of_fp16 = false;  // whether the table's dtype is bf16
  const auto bf16 = enabled(root, {"bf16", "bfloat16"}, autos, which, of_bf16);
  const auto fp16 = enabled(root, {"fp16"}, autos, which, of_fp16);
  if (bf16 && fp16 && bf16->value && fp16->value) {
    throw InputError(fp16->source.where,
                     fmt::format("fp16 and bf16 ({}) are both enabled; accepted: one of them",
                                 place(bf16->source)));
  }
  if (bf16 && bf16->value) {
    job.dtype = {"bf16", bf16->source};
  } else if (fp16 && fp16->value) {
    job.dtype = {of_fp16 ? "bf16" : "fp16", fp16->source};
  } else if (autos > 0) {
    job.asked.push_back({"precision", which.where,
                         "\"auto\" is the Trainer's bf16 or fp16; give --precision bf16-master, "
                         "fp16-master or fp32, or the Trainer's arguments as another --from",
                         true});
  } else {
    job.dtype = {"fp32", standard(job, "DeepSpeed's default: neither fp16 nor bf16")};
  }
  root.refuse_any({"amp"}, "apex's AMP is not simulated; bf16 and fp16 are");
  root.refuse_any({"torch_autocast"},
                  "torch.autocast under ZeRO is not simulated; bf16 and fp16 are");

  // What gradients are added up and sent in.
  if (auto types = root.section({"data_types"})) {
    if (const auto grad = types->word({"grad_accum_dtype"})) {
      const std::string word =
          choice(*grad, {"fp32", "fp16", "bf16", "float32", "float16", "bfloat16"});
      const bool wide = word == "fp32" || word == "float32";
      if (wide && job.dtype && job.dtype->value == "bf16" &&
          job.scenario.strategy == std::optional<std::string>("zero1")) {
        job.set("precision", &Scenario::precision, std::string("bf16-master-grad-fp32"),
                grad->source);
      } else if (wide && job.dtype && job.dtype->value != "fp32") {
        job.unsupported.push_back({grad->source.where,
                                   "gradients in fp32 are simulated under stage 1 with bf16 only",
                                   "precision", false});
      }
    }
    types->close();
  }
  if (const auto type = root.word({"communication_data_type"})) {
    const std::string word =
        choice(*type, {"none", "fp32", "fp16", "bf16", "fp32_allreduce", "float32", "bfloat16"});
    const std::string mine = job.dtype ? job.dtype->value : "";
    const bool same = word == "none" || word == mine || (mine == "fp32" && word == "float32") ||
                      (mine == "bf16" && word == "bfloat16");
    if (!same) {
      job.unsupported.push_back({type->source.where,
                                 "gradients in another dtype than the model's are not simulated",
                                 "precision", false});
    }
  }
  root.refuse_true({"fp32_allreduce"}, "an fp32 all-reduce of 16-bit gradients is not simulated");
}

void read_optimizer(Section& root) {
  auto optimizer = root.section({"optimizer"});
  if (!optimizer) return;
  if (const auto type = optimizer->word({"type", "name"})) {
    bool momentum = false;
    bool torch_adam = false;
    if (const Value* params = optimizer->peek("params")) {
      const Value* m = params->find("momentum");
      momentum = m != nullptr && m->number > 0;
      const Value* torch = params->find("torch_adam");
      torch_adam = torch != nullptr && torch->boolean;
    }
    std::string name = type->value;
    if (name == "SGD" || name == "sgd") name = momentum ? "sgd-momentum" : "sgd";
    if (torch_adam) name = "adamw_torch";
    // DeepSpeed's own Adam is one kernel over lists of tensors, as torch's fused one.
    set_optimizer(root.job(), {name, type->source}, "adamw-fused");
  }
  optimizer->irrelevant({"params", "legacy_fusion"});
  optimizer->close();
}

}  // namespace

void set_stage(Job& job, std::int64_t stage, const Source& source) {
  static const char* const names[] = {"ddp", "zero1", "zero2", "zero3"};
  job.through_deepspeed = true;
  job.set("strategy", &Scenario::strategy, std::string(names[stage]), source);
  if (stage > 0) return;
  job.set("bucket_cap_mb", &Scenario::bucket_cap_mb, 1e6,
          Source{Origin::standard,
                 {.file = job.file, .line = 0, .key = ""},
                 "DeepSpeed's stage 0 reduces after the whole backward: one bucket"});
}

void read_deepspeed_keys(Section& root) {
  Job& job = root.job();
  job.batch_words = "train_batch_size";
  const struct {
    const char* key;
    std::optional<Fact<std::int64_t>> Job::*field;
  } sizes[] = {{"train_batch_size", &Job::global_batch},
               {"train_micro_batch_size_per_gpu", &Job::micro_batch},
               {"gradient_accumulation_steps", &Job::accumulation}};
  for (const auto& size : sizes) job.*size.field = root.integer({size.key}, 1, 1e9);
  if (root.is_auto({"train_micro_batch_size_per_gpu"})) {
    job.asked.push_back({"micro_batch", root.where("train_micro_batch_size_per_gpu"),
                         "\"auto\" is the Trainer's per_device_train_batch_size; give "
                         "--micro-batch, or the Trainer's arguments as another --from",
                         true});
  }
  if (root.is_auto({"gradient_accumulation_steps"})) {
    job.accumulation = {1, standard(job, "the Trainer's default for \"auto\"")};
  }
  read_zero(root);
  read_dtype(root);
  read_optimizer(root);
  if (root.is_auto({"gradient_clipping"})) {
    root.take({"gradient_clipping"});
    job.set("clip_grad_norm", &Scenario::clip_grad_norm, true,
            standard(job, "the Trainer's max_grad_norm of 1.0 for \"auto\""));
  } else if (const auto clip = root.number({"gradient_clipping"}, 0, 1e30)) {
    job.set("clip_grad_norm", &Scenario::clip_grad_norm, clip->value > 0, clip->source);
  }

  if (auto parallel = root.section({"tensor_parallel"})) {
    refuse_degree(*parallel, {"autotp_size", "tp_size"}, "tensor-parallel");
    parallel->irrelevant({"enabled", "tp", "tp_grain_size", "tp_overlap_comm", "dtype", "mpu",
                          "tensor_parallel", "preset_model", "partition_config",
                          "use_default_specs", "keep_module_on_host", "injection_policy_tuple"});
    parallel->close();
  }
  refuse_degree(root, {"sequence_parallel_size"}, "sequence-parallel");
  if (auto compile = root.section({"compile"})) {
    compile->refuse_true({"deepcompile"},
                         "DeepCompile, which rewrites ZeRO's schedule, is not simulated");
    const auto on = compile->boolean({"enabled"});
    if (on && on->value) {
      job.set("profile", &Scenario::profile, std::string("pytorch-compile"), on->source);
    }
    compile->irrelevant(
        {"passes", "backend", "kwargs", "disable", "free_activation", "offload_activation",
         "offload_opt_states", "double_buffer", "symmetric_memory", "debug_log",
         "offload_parameters", "sync_before_reduce", "sync_after_reduce", "sync_before_allgather",
         "sync_after_allgather", "keep_int_input_tensors", "keep_all_input_tensors"});
    compile->close();
  }
  if (auto checkpointing = root.section({"activation_checkpointing"})) {
    // What the model's own deepspeed.checkpointing.checkpoint() does, where it calls it.
    checkpointing->refuse_true({"cpu_checkpointing"},
                               "activations kept in host memory are not simulated");
    checkpointing->irrelevant({"partition_activations", "contiguous_memory_optimization",
                               "number_checkpoints", "synchronize_checkpoint_boundary", "profile"});
    checkpointing->close();
  }
  root.refuse_any({"progressive_layer_drop"}, "progressive layer drop is not simulated");
  root.refuse_any({"sparse_attention"}, "sparse attention is not simulated");
  root.refuse_true({"sparse_gradients"}, "sparse gradients are not simulated");
  root.refuse_any({"compression_training"}, "training with compression is not simulated");
  root.refuse_any({"quantize_training"}, "training with quantization is not simulated");
  root.refuse_any({"hybrid_engine"}, "the hybrid engine, which generates too, is not simulated");
  for (const char* key : {"curriculum_learning", "data_efficiency"}) {
    const Value* there = root.peek(key);
    const Value* on = there == nullptr ? nullptr : there->find("enabled");
    if (on != nullptr && on->boolean) {
      job.approximate.push_back({root.where(key),
                                 "sequence lengths that change as training goes on: the step "
                                 "forecast is one of full length",
                                 "", false});
    }
    root.irrelevant({key});
  }
  root.irrelevant({"steps_per_print",
                   "wall_clock_breakdown",
                   "memory_breakdown",
                   "dump_state",
                   "zero_allow_untested_optimizer",
                   "zero_force_ds_cpu_optimizer",
                   "prescale_gradients",
                   "gradient_predivide_factor",
                   "scheduler",
                   "lr_scheduler",
                   "seq_parallel_communication_data_type",
                   "comms_logger",
                   "comms_config",
                   "flops_profiler",
                   "autotuning",
                   "elasticity",
                   "tensorboard",
                   "wandb",
                   "csv_monitor",
                   "comet",
                   "monitor_config",
                   "checkpoint",
                   "nebula",
                   "aio",
                   "dataloader_drop_last",
                   "disable_allgather",
                   "use_node_local_storage",
                   "load_universal_checkpoint",
                   "pipeline",
                   "eigenvalue",
                   "use_data_before_expert_parallelism",
                   "graph_harvesting",
                   "timers",
                   "cuda_visible_devices",
                   "vocabulary_size",
                   "seed",
                   "weight_quantization",
                   "allgather_size",
                   "datastates_ckpt",
                   "checkpoint_tag_validation",
                   "data_sampling"});
}

void read_deepspeed(const Value& root, Job& job) {
  Section section(root, "", job);
  read_deepspeed_keys(section);
  section.close();
}

void refuse_degree(Section& section, Section::Names names, const std::string& what) {
  if (section.is_auto(names)) section.take(names);
  const auto degree = section.integer(names, -1, 1e7);
  if (!degree || degree->value <= 1) return;
  if (what == "tensor-parallel" || what == "pipeline-parallel" || what == "context-parallel") {
    const auto [there, is_new] = section.job().degrees.try_emplace(what, *degree);
    if (!is_new && there->second.value != degree->value) {
      throw InputError(degree->source.where, fmt::format("contradicts {}; accepted: one of them",
                                                         place(there->second.source)));
    }
    return;
  }
  section.job().unsupported.push_back(
      {degree->source.where,
       fmt::format("{} {} GPUs to a replica: stepcast simulates the data-parallel axis, not what "
                   "runs inside such a group",
                   degree->value, what),
       "", false});
}

void set_optimizer(Job& job, const Fact<std::string>& name, const std::string& fallback) {
  std::string word;
  for (const char c : name.value) {
    word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  word = word.substr(word.rfind('.') == std::string::npos ? 0 : word.rfind('.') + 1);
  const struct {
    const char* name;
    const char* kind;  // "": the framework's own
  } known[] = {{"adam", ""},
               {"adamw", ""},
               {"fusedadam", "adamw-fused"},
               {"fusedadamw", "adamw-fused"},
               {"decoupled_adamw", ""},
               {"decoupledadamw", ""},
               {"adamw_torch", "adamw-foreach"},
               {"adamw_hf", "adamw-unfused"},
               {"adamw_torch_fused", "adamw-fused"},
               {"adamw_apex_fused", "adamw-fused"},
               {"adamw-fused", "adamw-fused"},
               {"adamw-foreach", "adamw-foreach"},
               {"adamw-unfused", "adamw-unfused"},
               {"sgd", "sgd"},
               {"sgd-momentum", "sgd-momentum"},
               {"decoupled_sgdw", "sgd-momentum"}};
  for (const auto& row : known) {
    if (word != row.name) continue;
    job.set("optimizer", &Scenario::optimizer, std::string(*row.kind == 0 ? fallback : row.kind),
            name.source);
    return;
  }
  std::string sentence = fmt::format(
      "optimizer {} is not simulated; --optimizer takes adamw-fused, adamw-foreach, adamw-unfused, "
      "sgd-momentum, sgd",
      name.value.substr(0, 40));
  for (const char* compressed : {"onebitadam", "zerooneadam", "onebitlamb"}) {
    if (word == compressed) sentence += "; its compressed collectives are not either";
  }
  job.unsupported.push_back({name.source.where, sentence, "optimizer", false});
}

}  // namespace stepcast::jobs
