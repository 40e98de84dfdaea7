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
// A misspelt key is refused: DeepSpeed's own parser refuses it in zero_optimization, and elsewhere
// takes its default in silence.
//
// Source: deepspeed/runtime/config.py, runtime/zero/config.py, runtime/constants.py of 0.19.6
// (docs/sources.md 1.5 and 1.6). Tested by tests/unit/jobs/deepspeed_test.cpp and, file by file,
// tests/interop.

#include <fmt/format.h>

#include "sim/jobs/deepspeed_parts.hpp"

namespace stepcast::jobs {

namespace {

void read_optimizer(Section& root) {
  auto optimizer = root.section({"optimizer"});
  if (!optimizer) return;
  if (const auto type = optimizer->word({"type", "name"})) {
    bool momentum = false;
    bool torch_adam = false;
    bool fused = false;
    if (const Value* params = optimizer->peek("params")) {
      const Value* m = params->find("momentum");
      momentum = m != nullptr && m->number > 0;
      const Value* torch = params->find("torch_adam");
      torch_adam = torch != nullptr && torch->boolean;
      const Value* one = params->find("fused");  // DeepSpeed hands it on to torch's
      fused = one != nullptr && one->boolean;
    }
    std::string name = type->value;
    if (name == "SGD" || name == "sgd") name = momentum ? "sgd-momentum" : "sgd";
    if (torch_adam) name = fused ? "adamw_torch_fused" : "adamw_torch";
    // DeepSpeed's own Adam is one kernel over lists of tensors, as torch's fused one.
    set_optimizer(root.job(), {name, type->source}, "adamw-fused");
  }
  optimizer->irrelevant({"params", "legacy_fusion"});
  optimizer->close();
}

// Templates carry every technique with "enabled": false, some levels deep.
bool any_enabled(const Value& value) {
  if (!value.is_map()) return true;
  const Value* on = value.find("enabled");
  if (on != nullptr) return on->kind != Value::Kind::boolean || on->boolean;
  bool nested = false;
  for (const auto& [key, inner] : value.entries) {
    if (!inner.is_map()) continue;
    nested = true;
    if (any_enabled(inner)) return true;
  }
  return !nested && !value.entries.empty();
}

void refuse_technique(Section& root, const char* key, const std::string& sentence) {
  const Value* there = root.peek(key);
  if (there != nullptr && there->is_map() && !any_enabled(*there)) {
    root.irrelevant({key});
  } else {
    root.refuse_any({key}, sentence);
  }
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
  refuse_technique(root, "compression_training", "training with compression is not simulated");
  refuse_technique(root, "quantize_training", "training with quantization is not simulated");
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

}  // namespace stepcast::jobs
