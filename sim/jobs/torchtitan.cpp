// torchtitan's TOML, of all its years:
//
//   2024-03  [training] data_parallel_degree, sequence_parallel_degree (what is now tensor),
//            checkpoint_*, warmup_steps, profile_every_x_iter, "llama" with a flavor
//   2024-06  tensor_parallel_degree; [experimental] pipeline_parallel_degree;
//   [activation_checkpoint] 2024-09  data_parallel_replicate_degree and data_parallel_shard_degree;
//   [float8] 2025-02  [parallelism] takes all degrees; local_batch_size for batch_size 2025-08
//   [compile] and [quantize.*]; converters in [model]
//
// What it runs: fully_shard over the shard degree with torchtitan's units (embedding, blocks, norm
// with head), replicas of that for HSDP, DDP with buckets of 100 MiB where nothing is sharded. bf16
// gathers and fp32 reduction over fp32 shards. Micro-batches of one step each reduce their
// gradients: torchtitan does not turn gradient synchronisation off between them.
//
// Source: torchtitan config_manager.py and job_config.py of those months,
// models/llama3/infra/parallelize.py. Tested by tests/unit/jobs/torchtitan_test.cpp and, file
// by file, tests/interop.

#include <fmt/format.h>

#include "sim/jobs/readers.hpp"

namespace stepcast::jobs {

namespace {

using Degree = std::optional<Fact<std::int64_t>>;

Source titan(const Job& job) { return standard(job, "torchtitan's default"); }

// A table that may be missing: the same questions, all answered by nothing.
Section table(Section& root, const char* name) {
  if (auto there = root.section({name})) return *there;
  return Section(empty_table(), name, root.job());
}

// What may stand in [training] or, later, in a table of its own.
struct Places {
  Section &training, &parallelism, &experimental;

  Degree integer(Section::Names names, double least, double most) {
    Degree found;
    for (Section* section : {&training, &parallelism, &experimental}) {
      Degree here = section->integer(names, least, most);
      if (!here) continue;
      if (found && found->value != here->value) {
        throw InputError(here->source.where, fmt::format("contradicts {}; accepted: one of them",
                                                         place(found->source)));
      }
      found = here;
    }
    return found;
  }
  void refuse(Section::Names names, const std::string& what) {
    for (Section* section : {&training, &parallelism, &experimental}) {
      refuse_degree(*section, names, what);
    }
  }
  void irrelevant(Section::Names names) {
    for (Section* section : {&training, &parallelism, &experimental}) section->irrelevant(names);
  }
};

void read_degrees(Places places, Job& job) {
  const Degree replicate = places.integer({"data_parallel_replicate_degree"}, 1, 1e7);
  const Degree shard =
      places.integer({"data_parallel_shard_degree", "data_parallel_degree"}, -1, 1e7);
  places.refuse({"tensor_parallel_degree", "sequence_parallel_degree"}, "tensor-parallel");
  places.refuse({"pipeline_parallel_degree"}, "pipeline-parallel");
  places.refuse({"context_parallel_degree"}, "context-parallel");
  places.refuse({"expert_parallel_degree"}, "expert-parallel");
  places.refuse({"expert_tensor_parallel_degree"}, "expert-tensor-parallel");
  if (shard && shard->value == 0) {
    throw InputError(shard->source.where, "0 is not accepted; accepted: -1 for all, or 1 and more");
  }
  const auto type = places.training.word({"data_parallel_type"});
  if (type && choice(*type, {"fsdp", "ddp"}) == "ddp") {
    job.set("strategy", &Scenario::strategy, std::string("ddp"), type->source);
    if (shard && shard->value > 1) job.world = {shard->value, shard->source};
  } else {
    set_degrees(job, replicate, shard,
                standard(job, "torchtitan's default: data_parallel_shard_degree of -1"));
  }
  const bool ddp = job.scenario.strategy == std::optional<std::string>("ddp");
  if (ddp) {
    job.set("bucket_cap_mb", &Scenario::bucket_cap_mb, 100.0,
            standard(job, "torchtitan's replicate(bucket_cap_mb=100)"));
  } else {
    job.set("wrap", &Scenario::wrap, std::string("torchtitan"),
            standard(job, "torchtitan's units: embedding, blocks, norm with head"));
  }
  const auto reshard = places.parallelism.word({"fsdp_reshard_after_forward"});
  if (reshard) {
    const std::string policy = choice(*reshard, {"default", "always", "never"});
    if (!ddp) {
      job.set("reshard_after_forward", &Scenario::reshard_after_forward,
              YesNoOrCount{policy != "never", 0}, reshard->source);
    }
    if (!ddp && policy == "always") {
      job.approximate.push_back(
          {reshard->source.where,
           "the last unit, norm with head, is kept after forward all the same", "", true});
    }
  }
}

void read_dtypes(Section& training, Job& job) {
  const auto word = [&](const char* key) -> std::optional<Fact<std::string>> {
    auto said = training.word({key});
    if (said) said->value = choice(*said, {"float32", "bfloat16", "float16"});
    return said;
  };
  const auto stored = word("dtype");
  const auto param = word("mixed_precision_param");
  const auto reduce = word("mixed_precision_reduce");
  const bool ddp = job.scenario.strategy == std::optional<std::string>("ddp");
  const std::string p = param ? param->value : "bfloat16";
  const std::string r = reduce ? reduce->value : "float32";
  Source from = param ? param->source : reduce ? reduce->source : titan(job);
  std::string recipe;
  if (stored && stored->value == "bfloat16") {
    recipe = "bf16-pure";
    from = stored->source;
    if (!ddp && r == "float32") {
      job.approximate.push_back({stored->source.where,
                                 "bf16 parameters whose gradients are reduced in fp32 "
                                 "(mixed_precision_reduce): forecast as reduced in bf16",
                                 "precision", true});
    }
  } else if (ddp) {
    recipe = p == "float32" ? "fp32" : p == "float16" ? "amp-fp16" : "amp-bf16";
  } else if (p == "float32") {
    recipe = "fp32";
  } else if (p == "float16") {
    recipe = "fp16-mixed";
  } else {
    recipe = r == "float32" ? "bf16-mixed" : "bf16-mixed-reduce-bf16";
  }
  job.set("precision", &Scenario::precision, recipe, from);
}

void read_batch(Section& training, Job& job) {
  job.batch_words = "global_batch_size";
  job.micro_batch = training.integer({"local_batch_size", "batch_size"}, 1, 1e9);
  if (!job.micro_batch) job.micro_batch = {8, titan(job)};
  const Degree global = training.integer({"global_batch_size"}, -1, 1e12);
  if (global && global->value > 0) job.global_batch = global;
  job.accumulation = training.integer({"gradient_accumulation_steps"}, 1, 1e9);
  if (!job.accumulation && !job.global_batch) job.accumulation = {1, titan(job)};
  const Degree length = training.integer({"seq_len"}, 1, 1e9);
  job.set("seq_len", &Scenario::seq_len, length ? length->value : 2048,
          length ? length->source : titan(job));
  if (const auto clip = training.number({"max_norm"}, 0, 1e30)) {
    job.set("clip_grad_norm", &Scenario::clip_grad_norm, clip->value > 0, clip->source);
  } else {
    job.set("clip_grad_norm", &Scenario::clip_grad_norm, true,
            standard(job, "torchtitan's max_norm of 1.0"));
  }
}

// Before [activation_checkpoint], in March and April 2024, every block was checkpointed: by op
// where [training] said so, else whole.
bool read_first_checkpointing(Section& training, Job& job) {
  const auto selective = training.boolean({"enable_selective_ac"});
  if (!selective) return false;
  job.set("checkpointing", &Scenario::checkpointing,
          std::string(selective->value ? "selective-op" : "full"), selective->source);
  return true;
}

void read_checkpointing(Section& root, Section& training, Job& job) {
  Section section = table(root, "activation_checkpoint");
  if (!root.has({"activation_checkpoint"}) && read_first_checkpointing(training, job)) return;
  const auto mode = section.word({"mode"});
  const auto option = section.word({"selective_ac_option"});
  std::string word = "selective";
  if (mode) {
    word = mode->value.empty() ? "none"
                               : choice(*mode, {"none", "selective", "full", "memory_budget"});
  }
  const Source from = mode ? mode->source : titan(job);
  if (word == "memory_budget") {
    job.unsupported.push_back({from.where,
                               "checkpointing by memory budget is not simulated; none, selective "
                               "and full are",
                               "checkpointing", false});
  } else if (word == "selective" && option && option->value != "op") {
    const Value n = plain_scalar(option->value, 0);
    if (n.kind != Value::Kind::integer || n.integer < 1) {
      throw InputError(option->source.where,
                       fmt::format("'{}' is not accepted; accepted: op, or every how many layers "
                                   "one is checkpointed",
                                   option->value.substr(0, 40)));
    }
    if (n.integer == 1) {
      word = "full";
    } else {
      job.unsupported.push_back({option->source.where,
                                 "full checkpointing of every so many layers is not simulated; "
                                 "none, selective (op) and full are",
                                 "checkpointing", false});
    }
  } else if (word == "selective" && option) {
    word = "selective-op";  // where the model's blocks take it (settle.cpp)
  } else if (word == "selective") {
    // The option's default is "2" in the versions of 2024 and 2025 and "op" in newer ones, and no
    // key of a file tells which one runs it.
    job.approximate.push_back({from.where,
                               "selective_ac_option is not said, and its default differs: every "
                               "second layer (2024, 2025) or by op (newer); forecast as "
                               "stepcast's choice of tensors, between the two",
                               "checkpointing", false});
  }
  if (word != "memory_budget") {
    job.set("checkpointing", &Scenario::checkpointing, word, from);
  }
  section.irrelevant({"per_op_sac_force_recompute_mm_shapes_by_fqns", "early_stop", "debug",
                      "preserve_rng_state", "determinism_check", "memory_budget",
                      "visualize_memory_budget_pareto"});
  section.close();
}

// A flavor that is in stepcast's catalog, or a name to ask about.
void read_model(Section& root, Job& job) {
  Section model = table(root, "model");
  const auto name = model.word({"name"});
  const auto flavor = model.word({"flavor"});
  if (name || flavor) {
    const Fact<std::string>& first = name ? *name : *flavor;
    std::string full = name ? name->value : "llama3";
    if (flavor) full += (full.empty() ? "" : "-") + flavor->value;
    Source from = first.source;
    if (name && flavor) from.text += ", " + flavor->source.text;
    job.model = {full, from};
  } else {
    job.model = {"llama3-debugmodel", titan(job)};
  }
  bool float8 = false;
  for (const std::string& converter : model.words({"converters"})) {
    if (converter == "float8" || converter == "quantize.linear.float8") {
      float8 = true;
    } else if (converter.find("mx") != std::string::npos) {
      job.unsupported.push_back(
          {model.where("converters"), "MX formats are not simulated; float8 is", "fp8", false});
    } else {
      job.unsupported.push_back(
          {model.where("converters"),
           fmt::format("model converter {} is not simulated", converter.substr(0, 40)), "", false});
    }
  }
  if (float8) {
    job.set("fp8", &Scenario::fp8, std::string("torchao-tensorwise"), model.source({"converters"}));
  }
  model.irrelevant({"norm_type", "tokenizer_path", "hf_assets_path", "use_flex_attn",
                    "attn_mask_type", "print_after_conversion", "vocab_size"});
  model.close();
}

// Until early 2025, when degrees stood in [training], AdamW was not fused unless it was asked for.
void read_optimizer(Section& root, bool of_2024, Job& job) {
  Section optimizer = table(root, "optimizer");
  const auto how = optimizer.word({"implementation"});
  const auto fused = optimizer.boolean({"fused"});
  std::string kind = of_2024 && !(fused && fused->value) ? "adamw-foreach" : "adamw-fused";
  if (how) {
    kind = "adamw-" + choice(*how, {"fused", "foreach", "for-loop", "fused_opt_states_bf16"});
    if (kind == "adamw-for-loop") kind = "adamw-unfused";
  } else if (fused && !fused->value) {
    kind = "adamw-foreach";
  }
  const auto name = optimizer.word({"name"});
  if (name) {
    set_optimizer(job, *name, kind);
  } else {
    job.set("optimizer", &Scenario::optimizer, kind, titan(job));
  }
  optimizer.refuse_true({"early_step_in_backward"},
                        "optimizer steps within backward are not simulated");
  optimizer.irrelevant({"lr", "eps", "beta1", "beta2", "weight_decay", "muon_*"});
  optimizer.close();
}

// 2024: [float8] enable_float8_linear; then a converter in [model], with its options in [float8] or
// [quantize.linear.float8]. Options alone say nothing.
void read_float8_options(Section& float8, Job& job) {
  const auto on = float8.boolean({"enable_float8_linear"});
  if (on && on->value) {
    job.set("fp8", &Scenario::fp8, std::string("torchao-tensorwise"), on->source);
  }
  const bool used = job.scenario.fp8.has_value();
  const auto recipe = float8.word({"recipe_name"});
  if (used && recipe && !recipe->value.empty() &&
      choice(*recipe, {"tensorwise", "rowwise", "rowwise_with_gw_hp"}) != "tensorwise") {
    job.unsupported.push_back({recipe->source.where,
                               "float8 scaled by row is not simulated; tensorwise is", "fp8",
                               false});
  }
  const auto gathers = float8.boolean({"enable_fsdp_float8_all_gather"});
  const auto precomputes = float8.boolean({"precompute_float8_dynamic_scale_for_fsdp"});
  if (used) set_fp8_all_gather(job, gathers, precomputes);
  float8.irrelevant({"force_recompute_fp8_weight_in_bwd", "filter_fqns", "moe_fqns",
                     "moe_fqns_prototype", "scaling_type_*", "emulate"});
  float8.close();
}

void read_float8(Section& root, Job& job) {
  Section float8 = table(root, "float8");
  read_float8_options(float8, job);
  auto quantize = root.section({"quantize"});
  if (!quantize) return;
  if (auto linear = quantize->section({"linear"})) {
    Section nested = table(*linear, "float8");
    read_float8_options(nested, job);
    linear->irrelevant({"float8", "mx"});
    linear->close();
  }
  quantize->irrelevant({"linear", "grouped_mm", "dense_mm", "moe_mm"});
  quantize->close();
}

}  // namespace

void read_torchtitan(const Value& root_value, Job& job) {
  Section root(root_value, "", job);
  Section training = table(root, "training");
  Section parallelism = table(root, "parallelism");
  Section experimental = table(root, "experimental");
  Places places{training, parallelism, experimental};

  read_degrees(places, job);
  read_dtypes(training, job);
  read_batch(training, job);
  read_checkpointing(root, training, job);
  read_model(root, job);
  read_optimizer(root, !root.has({"parallelism"}) && root.has({"training"}), job);
  read_float8(root, job);

  Section compile = table(root, "compile");
  const auto whole = training.boolean({"compile"});
  const auto enable = compile.boolean({"enable"});
  bool compiled = (whole && whole->value) || (enable && enable->value);
  const Source from = enable ? enable->source : whole ? whole->source : titan(job);
  const std::vector<std::string> components = compile.words({"components"});
  if (enable && enable->value && !components.empty()) {
    bool model = false;
    for (const std::string& component : components) model = model || component == "model";
    if (!model) {
      compiled = false;
      job.approximate.push_back({compile.where("components"),
                                 "a compiled loss alone is forecast as eager", "profile", false});
    }
  }
  compile.irrelevant({"backend"});
  compile.close();
  job.set("profile", &Scenario::profile,
          std::string(compiled ? "torchtitan-compile" : "torchtitan-eager"), from);

  training.refuse_true({"enable_cpu_offload"}, "CPU offload of parameters is not simulated", true);
  const auto fp8 = training.word({"fp8_linear"});
  if (fp8 && !fp8->value.empty() && plain_scalar(fp8->value, 0).kind != Value::Kind::boolean) {
    job.unsupported.push_back({fp8->source.where,
                               "the fp8 of March 2024 (float8_experimental) is not simulated; "
                               "torchao's is",
                               "fp8", false});
  }
  Section tolerance = table(root, "fault_tolerance");
  tolerance.refuse_true({"enable"}, "torchft's replicas are not simulated");
  tolerance.irrelevant({"replica_id", "group_size", "min_replica_size", "semi_sync_method",
                        "process_group", "process_group_timeout_ms", "*"});
  tolerance.close();

  if (!job.accumulation || job.accumulation->value > 1) {
    job.set("accumulation_sync", &Scenario::accumulation_sync, std::string("every"),
            standard(job, "torchtitan reduces in every micro-batch"));
  }
  // Options of dimensions that are refused above where they are more than 1.
  places.irrelevant({"enable_async_tensor_parallel", "disable_loss_parallel",
                     "enable_loss_parallel", "pipeline_parallel_schedule*",
                     "pipeline_parallel_split_points", "pipeline_parallel_microbatch*",
                     "pipeline_parallel_layers_per_stage", "pipeline_parallel_first_stage*",
                     "pipeline_parallel_last_stage*", "pipeline_parallel_expert*",
                     "module_fqns_per_model_part", "context_parallel_rotate_method",
                     "context_parallel_load_balancer", "expert_parallel_comm_backend",
                     "enable_compiled_autograd", "disable_*"});
  training.irrelevant({"warmup_*", "steps", "dataset", "dataset_path", "gc_freq", "gc_debug",
                       "deterministic", "debug_moe_force_load_balance", "seed",
                       "checkpoint_interval", "checkpoint_interval_type", "checkpoint_folder",
                       "data_parallel_type", "enable_selective_ac"});
  if (experimental.has({"custom_args_module"})) {
    job.approximate.push_back({experimental.where("custom_args_module"),
                               "what that module adds to the configuration is not read", "",
                               false});
  }
  experimental.irrelevant({"custom_args_module", "custom_import", "custom_model_path"});
  training.close();
  parallelism.close();
  experimental.close();
  root.irrelevant({"job", "profiling", "metrics", "lr_scheduler", "checkpoint", "comm",
                   "validation", "memory_estimation", "mx", "debug", "experiment", "deepep", "eval",
                   "dataset", "dataloader", "inference", "hf_assets", "fault_tolerance"});
  root.close();
}

}  // namespace stepcast::jobs
