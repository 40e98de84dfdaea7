// llm-foundry's training YAML (Composer), also under the `parameters:` of a MosaicML run.
//
//   fsdp_config       FSDP1 under PyTorch's names; absent: DDP. Composer's own defaults: it
//                     prefetches after a unit's backward and reduces in every micro-batch
//   mixed_precision   PURE gathers and reduces in 16 bit; DEFAULT reduces in fp32; FULL gathers
//   fp32
//                     and autocasts, which is not simulated
//   batches           global_train_batch_size over all GPUs, device_train_microbatch_size a GPU
//   model             mpt_causal_lm spells sizes out, hf_causal_lm names a model of the hub
//
// Source: llm-foundry scripts/train/train.py and its yamls; composer/distributed/dist_strategy.py,
// utils/parallelism.py. Tested by tests/unit/jobs/recipes_test.cpp and, file by file,
// tests/interop.

#include <fmt/format.h>

#include "sim/jobs/readers.hpp"

namespace stepcast::jobs {

namespace {

void read_fsdp_config(Section& fsdp, const std::string& amp) {
  Job& job = fsdp.job();
  const bool fp32 = amp == "fp32";
  const bool fp16 = amp == "amp-fp16";
  const auto strategy = fsdp.word({"sharding_strategy"});
  job.set("strategy", &Scenario::strategy, std::string("fsdp1"),
          strategy ? strategy->source : standard(job, "Composer's FSDP"));
  job.set("sharding_strategy", &Scenario::sharding_strategy,
          strategy ? sharding_name(*strategy) : std::string("FULL_SHARD"),
          strategy ? strategy->source : standard(job, "Composer's default"));
  const bool hybrid = job.scenario.sharding_strategy &&
                      job.scenario.sharding_strategy->find("HYBRID") != std::string::npos;
  const auto shards = fsdp.integer({"data_parallel_shard_degree"}, -1, 1e7);
  if (hybrid && shards && shards->value > 1) {
    job.set("shard_group", &Scenario::shard_group, shards->value, shards->source);
  }
  const auto prefetch = fsdp.word({"backward_prefetch"});
  std::string mode = "post";
  if (prefetch) {
    const std::string word = choice(*prefetch, {"BACKWARD_PRE", "BACKWARD_POST", "NONE"});
    mode = word == "BACKWARD_PRE" ? "pre" : word == "BACKWARD_POST" ? "post" : "none";
  }
  job.set("backward_prefetch", &Scenario::backward_prefetch, mode,
          prefetch ? prefetch->source : standard(job, "Composer's default"));
  if (const auto read = fsdp.boolean({"forward_prefetch"})) {
    job.set("forward_prefetch", &Scenario::forward_prefetch, read->value, read->source);
  }
  if (const auto read = fsdp.boolean({"limit_all_gathers"})) {
    job.set("limit_all_gathers", &Scenario::limit_all_gathers, read->value, read->source);
  }
  if (const auto read = fsdp.boolean({"use_orig_params"})) {
    job.set("use_orig_params", &Scenario::use_orig_params, read->value, read->source);
  }
  if (const auto on = fsdp.boolean({"activation_checkpointing"})) {
    job.set("checkpointing", &Scenario::checkpointing, std::string(on->value ? "full" : "none"),
            on->source);
  }
  const auto mixed = fsdp.take({"mixed_precision"});
  const Source from =
      mixed ? fsdp.source({"mixed_precision"}) : standard(job, "Composer's default");
  std::string type = "DEFAULT";
  if (mixed != nullptr && mixed->is_scalar()) {
    type = choice({mixed->text, from}, {"PURE", "DEFAULT", "FULL"});
  }
  if (mixed != nullptr && mixed->is_map()) {
    job.unsupported.push_back(
        {from.where, "a table of dtypes is not read; give --precision", "precision", false});
  } else if (type == "FULL" && !fp32) {
    job.unsupported.push_back({from.where,
                               "FULL gathers fp32 parameters under autocast, which is not "
                               "simulated; PURE and DEFAULT are",
                               "precision", false});
  } else {
    job.set("precision", &Scenario::precision,
            std::string(fp32             ? "fp32"
                        : fp16           ? "fp16-mixed"
                        : type == "PURE" ? "bf16-mixed-reduce-bf16"
                                         : "bf16-mixed"),
            from);
    if (fp16 && type == "PURE") {
      job.approximate.push_back({from.where,
                                 "gradients are forecast as reduced in fp32, not in fp16",
                                 "precision", true});
    }
  }
  job.set("accumulation_sync", &Scenario::accumulation_sync, std::string("every"),
          standard(job, "Composer reduces in every micro-batch under FSDP"));
  fsdp.refuse_true({"cpu_offload"}, "CPU offload of parameters is not simulated", true);
  fsdp.refuse_true({"activation_cpu_offload"}, "activations kept in host memory are not simulated");
  fsdp.irrelevant({"activation_checkpointing_reentrant", "state_dict_type", "verbose",
                   "flatten_parameters", "keep_low_precision_grads", "load_monolith_rank0_only",
                   "load_planner", "save_planner", "sharded_ckpt_prefix_dir", "sync_module_states",
                   "process_group", "data_parallel_replicate_degree", "te_checkpoint_wrapper",
                   "te_shard_fp8_weight", "ignored_modules", "min_params", "device_mesh",
                   "auto_wrap", "timeout"});
  fsdp.close();
}

void read_model(Section& model) {
  Job& job = model.job();
  if (const auto name = model.word({"pretrained_model_name_or_path"})) job.model = *name;
  const struct {
    const char* key;
    const char* size;
  } sizes[] = {{"d_model", "hidden"},
               {"n_layers", "layers"},
               {"n_heads", "heads"},
               {"vocab_size", "vocabulary"},
               {"expansion_ratio", "expansion"}};
  for (const auto& size : sizes) {
    if (const auto read = model.integer({size.key}, 1, 1e9)) job.sizes[size.size] = *read;
  }
  if (auto ffn = model.section({"ffn_config"})) {
    const auto type = ffn->word({"ffn_type"});
    if (type && type->value != "mptmlp") {
      job.unsupported.push_back({type->source.where,
                                 fmt::format("ffn_type {} is not built for mpt; give --model with "
                                             "the model that is meant",
                                             type->value.substr(0, 40)),
                                 "model", false});
    }
  }
  if (auto attention = model.section({"attn_config"})) {
    if (const auto how = attention->word({"attn_impl"})) {
      job.set("fused_attention", &Scenario::fused_attention, how->value != "torch", how->source);
    }
  }
  if (const auto flash = model.boolean({"use_flash_attention_2"})) {
    job.set("fused_attention", &Scenario::fused_attention, flash->value, flash->source);
  }
  model.refuse_any({"peft_config"},
                   "adapters train a small part of the parameters; stepcast's step trains all of "
                   "them");
  model.irrelevant({"name",
                    "init_device",
                    "pretrained",
                    "use_auth_token",
                    "use_train_metrics",
                    "trust_remote_code",
                    "config_overrides",
                    "max_seq_len",
                    "loss_fn",
                    "attn_config",
                    "ffn_config",
                    "no_bias",
                    "emb_pdrop",
                    "resid_pdrop",
                    "learned_pos_emb",
                    "norm_type",
                    "norm_eps",
                    "fc_type",
                    "init_config",
                    "verbose",
                    "tie_word_embeddings",
                    "logit_scale",
                    "use_cache",
                    "embedding_fraction",
                    "mlp_type",
                    "attn_impl",
                    "alibi",
                    "alibi_bias_max",
                    "low_precision_layernorm",
                    "tokenizer_name",
                    "peft_config",
                    "use_pad_tok_in_ffn",
                    "block_overrides",
                    "final_logit_softcapping",
                    "device"});
  model.close();
}

}  // namespace

void read_llm_foundry(const Value& root_value, Job& job) {
  Section outer(root_value, "", job);
  std::optional<Section> within;
  if (outer.has({"parameters"})) within = outer.section({"parameters"});
  Section& root = within ? *within : outer;

  const auto precision = root.word({"precision"});
  std::string amp = "amp-bf16";
  if (precision) {
    const std::string word = choice(*precision, {"fp32", "amp_fp16", "amp_bf16", "amp_fp8"});
    if (word == "fp32") amp = "fp32";
    // Composer's fp8_autocast with DelayedScaling over bf16.
    if (word == "amp_fp8") {
      job.set("fp8", &Scenario::fp8, std::string("te-delayed"), precision->source);
    }
    if (word == "amp_fp16") amp = "amp-fp16";
  }
  std::optional<Section> fsdp = root.section({"fsdp_config"});
  if (auto parallelism = root.section({"parallelism_config"})) {
    if (!fsdp) fsdp = parallelism->section({"fsdp", "fsdp_config"});
    if (auto tp = parallelism->section({"tp", "tp_config"})) {
      refuse_degree(*tp, {"tensor_parallel_degree"}, "tensor-parallel");
    }
  }
  if (root.has({"deepspeed_config"})) {
    job.unsupported.push_back({root.where("deepspeed_config"),
                               "Composer's DeepSpeed is not read; give its JSON as another --from",
                               "strategy", false});
    root.take({"deepspeed_config"});
  }
  if (fsdp) {
    read_fsdp_config(*fsdp, amp);
  } else {
    job.set("strategy", &Scenario::strategy, std::string("ddp"),
            standard(job, "Composer without fsdp_config is DDP"));
    job.set("precision", &Scenario::precision, amp,
            precision ? precision->source : standard(job, "Composer's default"));
  }
  job.batch_words = "global_train_batch_size";
  job.global_batch = root.integer({"global_train_batch_size"}, 1, 1e12);
  const Section::Names micro{"device_train_microbatch_size"};
  if (root.is_auto({"device_train_microbatch_size"})) {
    job.asked.push_back({"micro_batch", root.where("device_train_microbatch_size"),
                         "\"auto\" is found by Composer when it runs out of memory; give "
                         "--micro-batch",
                         true});
  }
  job.micro_batch = root.integer(micro, 1, 1e9);
  if (!job.micro_batch) job.micro_batch = root.integer({"device_train_batch_size"}, 1, 1e9);
  if (!root.is_auto({"grad_accum"})) job.accumulation = root.integer({"grad_accum"}, 1, 1e9);
  if (const auto length = root.integer({"max_seq_len"}, 1, 1e9)) {
    job.set("seq_len", &Scenario::seq_len, length->value, length->source);
  }
  if (auto model = root.section({"model"})) read_model(*model);
  if (auto optimizer = root.section({"optimizer"})) {
    if (const auto name = optimizer->word({"name"})) set_optimizer(job, *name, "adamw-foreach");
    optimizer->irrelevant({"lr", "betas", "eps", "weight_decay", "momentum", "foreach", "fused",
                           "layer_precision", "outlier_threshold"});
    optimizer->close();
  }
  if (auto algorithms = root.section({"algorithms"})) {
    if (auto clip = algorithms->section({"gradient_clipping"})) {
      job.set("clip_grad_norm", &Scenario::clip_grad_norm, true,
              algorithms->source({"gradient_clipping"}));
      job.sources["clip_grad_norm"].text = "algorithms.gradient_clipping";
      clip->irrelevant({"clipping_type", "clipping_threshold"});
      clip->close();
    }
    algorithms->irrelevant({"low_precision_layernorm", "fused_layernorm", "gated_linear_units"});
    algorithms->close();
  }
  if (const auto on = root.boolean({"expandable_segments"})) {
    job.set("expandable_segments", &Scenario::expandable_segments, on->value, on->source);
  }
  if (root.has({"compile_config"})) {
    job.set("profile", &Scenario::profile, std::string("pytorch-compile"),
            root.source({"compile_config"}));
    root.take({"compile_config"});
  } else {
    job.set("profile", &Scenario::profile, std::string("composer-torch2"),
            standard(job, "Composer on PyTorch 2"));
  }
  root.irrelevant({"variables",
                   "data_local",
                   "data_remote",
                   "max_seq_len",
                   "global_seed",
                   "seed",
                   "run_name",
                   "tokenizer",
                   "tokenizer_name",
                   "train_loader",
                   "eval_loader",
                   "scheduler",
                   "max_duration",
                   "eval_*",
                   "device_eval_*",
                   "progress_bar",
                   "log_*",
                   "logging_*",
                   "console_log_interval",
                   "callbacks",
                   "loggers",
                   "save_*",
                   "load_*",
                   "dist_timeout",
                   "python_log_level",
                   "icl_*",
                   "metadata",
                   "autoresume",
                   "model_gauntlet",
                   "code_paths",
                   "max_split_size_mb",
                   "only_*",
                   "flatten_imports",
                   "accumulate_*",
                   "spin_dataloaders",
                   "fast_forward_*",
                   "profiler",
                   "run_*",
                   "model_name",
                   "git_*",
                   "device_train_batch_size",
                   "compression",
                   "finetune_*",
                   "reset_time",
                   "n_gpus"});
  root.close();
  if (within) {
    // A MosaicML run says its GPUs beside the parameters.
    if (auto compute = outer.section({"compute"})) {
      if (const auto gpus = compute->integer({"gpus"}, 1, 1e7)) {
        job.set("gpus", &Scenario::gpus, gpus->value, gpus->source);
      }
      compute->irrelevant({"*"});
    } else if (const auto gpus = outer.integer({"gpu_num"}, 1, 1e7)) {
      job.set("gpus", &Scenario::gpus, gpus->value, gpus->source);
    }
    outer.irrelevant({"name", "image", "command", "compute", "cluster", "gpu_num", "gpu_type",
                      "integrations", "scheduling", "run_name", "env_variables", "platform",
                      "optimization_level", "metadata"});
    outer.close();
  }
}

}  // namespace stepcast::jobs
