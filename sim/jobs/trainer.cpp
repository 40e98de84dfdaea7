// The Hugging Face Trainer's arguments as a YAML or JSON file, and those of two programs that
// extend them: LLaMA-Factory and axolotl.
//
//   batch          per_device_train_batch_size (8), gradient_accumulation_steps (1); axolotl:
//                  micro_batch_size
//   precision      bf16, fp16, else fp32; axolotl's "auto" is bf16
//   strategy       deepspeed names a DeepSpeed JSON; fsdp = "full_shard auto_wrap" with
//                  fsdp_config is FSDP; neither is DDP, as torchrun starts it
//   checkpointing  gradient_checkpointing is the model's own, a checkpoint around each block's
//   call.
//                  Under FSDP1 it wraps the unit, so that each block is gathered once more
//                  (checkpoint_outside_unit); fsdp_config's activation_checkpointing lies within.
//                  LLaMA-Factory checkpoints unless disable_gradient_checkpointing
//   clipping       max_grad_norm (1.0)
//
// What trains only a few parameters (LoRA, quantized models) is refused: stepcast's step trains
// all of them.
//
// Source: transformers 4.5x training_args.py and trainer.py; LLaMA-Factory hparams/; axolotl
// utils/schemas/. Tested by tests/unit/jobs/hugging_face_test.cpp and, file by file, tests/interop.

#include <fmt/format.h>

#include <algorithm>

#include "sim/jobs/readers.hpp"
#include "sim/jobs/trainer_keys.hpp"

namespace stepcast::jobs {

namespace {

const char* framework(const Job& job) {
  return job.kind == Kind::axolotl         ? "axolotl"
         : job.kind == Kind::llama_factory ? "LLaMA-Factory"
                                           : "the Trainer";
}

void read_model(Section& root) {
  Job& job = root.job();
  job.model = root.word({"model_name_or_path", "base_model", "model"});
  const auto length = root.integer({"sequence_len", "cutoff_len", "max_seq_length", "max_length",
                                    "block_size", "model_max_length"},
                                   1, 1e9);
  if (length) job.set("seq_len", &Scenario::seq_len, length->value, length->source);
  const std::string partly =
      "adapters train a small part of the parameters; stepcast's step trains all of them";
  if (const auto adapter = root.word({"adapter", "finetuning_type"})) {
    const std::string kind = choice(*adapter, {"full", "lora", "qlora", "freeze", "oft", "galore",
                                               "llama-adapter", "none", ""});
    if (kind != "full" && kind != "none" && !kind.empty()) {
      job.unsupported.push_back({adapter->source.where, partly, "", false});
    }
  }
  root.refuse_any({"use_peft"}, partly);
  if (job.kind != Kind::axolotl) {
    // Of an adapter that is not asked for these say nothing.
    root.irrelevant({"lora_*", "qlora_*", "additional_target", "loraplus_*", "use_dora",
                     "use_rslora", "pissa_*", "freeze_*", "oft_*", "peft_*"});
  }
  root.refuse_any({"load_in_4bit", "load_in_8bit", "quantization_bit", "quantization_method"},
                  "quantized parameters are not simulated");
  root.refuse_any({"use_galore", "use_apollo", "use_badam", "use_llama_pro", "use_adam_mini",
                   "unfrozen_parameters"},
                  partly);
  root.refuse_any({"use_unsloth"}, "Unsloth's kernels are not simulated");
  root.refuse_any({"mixture_of_depths", "relora"}, "is not simulated");
}

void read_precision(Section& root) {
  Job& job = root.job();
  const auto on = [&](Section::Names names) -> std::optional<Fact<bool>> {
    if (root.is_auto(names)) {
      root.take(names);
      return Fact<bool>{true, root.source(names)};
    }
    const auto word = root.word(names);
    if (!word) return std::nullopt;
    if (word->value == "full") return Fact<bool>{true, word->source};
    return Fact<bool>{truth(plain_scalar(word->value, 0), word->source.where), word->source};
  };
  // LLaMA-Factory's pure_bf16 and axolotl's bfloat16 and float16 mean the dtype without autocast,
  // and stand beside a bf16 or fp16 that says false.
  const auto either = [&](const char* autocast, Section::Names whole) {
    const auto one = on({autocast});
    const auto other = on(whole);
    return other && (!one || other->value) ? other : one;
  };
  const auto bf16 = either("bf16", {"bfloat16", "pure_bf16"});
  const auto fp16 = either("fp16", {"float16"});
  if (bf16 && fp16 && bf16->value && fp16->value) {
    throw InputError(
        fp16->source.where,
        fmt::format("fp16 and bf16 ({}) are both on; accepted: one of them", place(bf16->source)));
  }
  // Parameters that are loaded in bf16 stay so, and with them gradients and moments: autocast has
  // nothing to cast. LLaMA-Factory casts what it trains to fp32 unless pure_bf16 is on.
  const auto loaded = root.word({"dtype", "torch_dtype"});
  const auto pure = root.boolean({"pure_bf16", "bfloat16"});
  const auto half = root.boolean({"float16"});
  if (half && half->value) {
    job.unsupported.push_back({half->source.where,
                               "fp16 without autocast or fp32 copies is not simulated; fp16 is",
                               "precision", false});
  }
  if (pure && pure->value) {
    job.pure_16 = *pure;
  } else if (job.kind == Kind::trainer && loaded && loaded->value == "bfloat16") {
    job.pure_16 = {true, loaded->source};
  }
  if (bf16 && bf16->value) {
    job.dtype = {"bf16", bf16->source};
  } else if (fp16 && fp16->value) {
    job.dtype = {"fp16", fp16->source};
  } else if (const auto fp8 = root.boolean({"fp8"}); fp8 && fp8->value) {
    job.dtype = {"bf16", fp8->source};
  } else {
    job.dtype = {"fp32", standard(job, std::string(framework(job)) + "'s default")};
  }
  const auto fp8 = root.boolean({"fp8"});
  if (fp8 && fp8->value) {
    std::optional<Fact<std::string>> engine = root.word({"fp8_backend"});
    if (job.kind == Kind::axolotl) engine = {"torchao", fp8->source};  // it knows no other
    set_fp8(job, fp8->source, engine);
    set_fp8_all_gather(job, root.boolean({"fp8_enable_fsdp_float8_all_gather"}), std::nullopt);
  }
  root.irrelevant({"fp8_backend", "fp8_enable_fsdp_float8_all_gather"});
  root.irrelevant({"tf32"});
}

void read_batch(Section& root) {
  Job& job = root.job();
  job.batch_words = "batch";
  job.micro_batch = root.integer(
      {"per_device_train_batch_size", "micro_batch_size", "per_gpu_train_batch_size"}, 1, 1e9);
  if (!job.micro_batch) {
    const bool axolotl = job.kind == Kind::axolotl;
    job.micro_batch = {axolotl ? 1 : 8, standard(job, std::string(framework(job)) + "'s default")};
  }
  job.accumulation = root.integer({"gradient_accumulation_steps"}, 1, 1e9);
  if (!job.accumulation) {
    job.accumulation = {1, standard(job, std::string(framework(job)) + "'s default")};
  }
  if (job.kind == Kind::axolotl) job.global_batch = root.integer({"batch_size"}, 1, 1e9);
}

// fsdp: "full_shard auto_wrap offload", or a list of the same words; or true with fsdp_version 2.
bool read_fsdp_arguments(Section& root) {
  Job& job = root.job();
  const auto config_word = root.has({"fsdp_config"}) && root.peek("fsdp_config")->is_scalar();
  if (config_word) {
    const Source from = root.source({"fsdp_config"});
    root.take({"fsdp_config"});
    job.asked.push_back(
        {"strategy", from.where, "names another file; give it as another --from", true});
  }
  std::optional<Section> config = config_word ? std::nullopt : root.section({"fsdp_config"});
  std::vector<std::string> words;
  if (const Value* said = root.peek("fsdp");
      said != nullptr && said->kind == Value::Kind::boolean) {
    if (root.boolean({"fsdp"})->value) words.push_back("full_shard");
  } else {
    words = root.words({"fsdp"});
  }
  const auto outer_version = root.integer({"fsdp_version"}, 1, 2);
  // The Trainer writes fsdp_config's defaults into every dump of its arguments; fsdp alone is what
  // turns FSDP on.
  const Value* empty = root.peek("fsdp");
  if (words.empty() && !outer_version && empty != nullptr && job.kind == Kind::trainer) {
    root.irrelevant({"fsdp_config", "fsdp_transformer_layer_cls_to_wrap", "fsdp_min_num_params"});
    return false;
  }
  if (words.empty() && !config && !outer_version) return config_word;

  FsdpSettings settings;
  settings.framework = framework(job);
  settings.no_prefetch = "none";
  if (outer_version) settings.version = outer_version->value;
  const Source from = root.source({"fsdp"});
  for (const std::string& word : words) {
    if (word == "auto_wrap") continue;
    if (word == "offload") {
      job.unsupported.push_back(
          {from.where, "CPU offload of parameters is not simulated", "", true});
      continue;
    }
    if (word == "hybrid_shard_zero2") {
      settings.strategy = {"HYBRID_SHARD_ZERO2", from};
      continue;
    }
    Fact<std::string> fact{word, from};
    settings.strategy = {choice(fact, {"full_shard", "shard_grad_op", "no_shard", "hybrid_shard"}),
                         from};
  }
  Section none(empty_table(), "fsdp_config", job);
  Section& section = config ? *config : none;
  // LLaMA-Factory and old Trainers say the class beside fsdp.
  root.take({"fsdp_transformer_layer_cls_to_wrap", "fsdp_min_num_params"});
  read_fsdp(section, settings);
  return true;
}

void read_degrees(Section& root) {
  Job& job = root.job();
  refuse_degree(root, {"tensor_parallel_size", "tp_size"}, "tensor-parallel");
  refuse_degree(root, {"context_parallel_size", "cp_size"}, "context-parallel");
  refuse_degree(root, {"sequence_parallel_size", "sequence_parallel_degree", "sp_size"},
                "sequence-parallel");
  refuse_degree(root, {"expert_parallel_size", "ep_size"}, "expert-parallel");
  const auto replicate = root.integer({"dp_replicate_size"}, 1, 1e7);
  const auto shard = root.integer({"dp_shard_size"}, 1, 1e7);
  if (replicate || shard) set_degrees(job, replicate, shard, {});
}

void read_strategy(Section& root) {
  Job& job = root.job();
  bool chosen = false;
  if (const Value* inline_config = root.peek("deepspeed");
      inline_config != nullptr && inline_config->is_map()) {
    std::optional<Section> deepspeed = root.section({"deepspeed"});
    if (deepspeed) {
      const auto micro = job.micro_batch, accumulation = job.accumulation;
      const auto dtype = job.dtype;
      read_deepspeed_keys(*deepspeed);
      deepspeed->close();
      // The Trainer's own arguments fill what the inline configuration leaves to them.
      if (!job.micro_batch) job.micro_batch = micro;
      if (!job.accumulation) job.accumulation = accumulation;
      if (!job.dtype) job.dtype = dtype;
      job.asked.clear();
      chosen = true;
    }
  } else if (auto file = root.word({"deepspeed", "deepspeed_config_file"})) {
    job.deepspeed_file = *file;
    job.through_deepspeed = true;
    chosen = true;
  }
  if (read_fsdp_arguments(root)) chosen = true;
  read_degrees(root);
  if (chosen || job.scenario.strategy) return;
  job.set("strategy", &Scenario::strategy, std::string("ddp"),
          standard(job, std::string(framework(job)) + " under torchrun is DDP"));
  if (const auto find = root.boolean({"ddp_find_unused_parameters"})) {
    job.set("find_unused_parameters", &Scenario::find_unused_parameters, find->value, find->source);
  }
  if (const auto cap = root.number({"ddp_bucket_cap_mb"}, 1e-6, 1e6)) {
    job.set("bucket_cap_mb", &Scenario::bucket_cap_mb, cap->value, cap->source);
  }
  if (const auto buffers = root.boolean({"ddp_broadcast_buffers"})) {
    job.set("broadcast_buffers", &Scenario::broadcast_buffers, buffers->value, buffers->source);
  }
}

void read_checkpointing(Section& root) {
  Job& job = root.job();
  std::optional<Fact<bool>> on;
  const auto word = root.word({"gradient_checkpointing"});
  if (word &&
      (word->value == "offload" || word->value == "offload_disk" || word->value == "unsloth")) {
    job.unsupported.push_back({word->source.where,
                               "activations kept in host memory are not simulated", "checkpointing",
                               false});
  } else if (word) {
    on = {truth(plain_scalar(word->value, 0), word->source.where), word->source};
  }
  if (job.kind == Kind::llama_factory) {
    const auto disabled = root.boolean({"disable_gradient_checkpointing"});
    on = disabled ? Fact<bool>{!disabled->value, disabled->source}
                  : Fact<bool>{true, standard(job, "LLaMA-Factory's default")};
    root.irrelevant({"use_unsloth_gc", "use_reentrant_gc"});
  }
  root.refuse_true({"activation_offloading"}, "activations kept in host memory are not simulated");
  if (!on) return;
  // fsdp_config's own checkpointing has been read; on is on, whoever says it.
  if (!on->value && job.scenario.checkpointing) return;
  if (on->value && job.scenario.checkpointing == std::optional<std::string>("full")) return;
  job.set("checkpointing", &Scenario::checkpointing, std::string(on->value ? "full" : "none"),
          on->source);
  job.gradient_checkpointing_outside_unit = on->value;
}

}  // namespace

void read_trainer(const Value& root, Job& job) {
  Section section(root, "", job);
  read_model(section);
  read_precision(section);
  read_batch(section);
  read_strategy(section);
  read_checkpointing(section);

  if (const auto clip = section.number({"max_grad_norm"}, 0, 1e30)) {
    job.set("clip_grad_norm", &Scenario::clip_grad_norm, clip->value > 0, clip->source);
  } else {
    job.set("clip_grad_norm", &Scenario::clip_grad_norm, true,
            standard(job, "the Trainer's max_grad_norm of 1.0"));
  }
  const auto adafactor = section.boolean({"adafactor"});  // before `optim`; it wins over it
  if (adafactor && adafactor->value) {
    section.take({"optim", "optimizer"});
    set_optimizer(job, {"adafactor", adafactor->source}, "adamw-foreach");
  } else if (const auto optimizer = section.word({"optim", "optimizer"})) {
    set_optimizer(job, *optimizer, "adamw-foreach");
  }
  section.refuse_any(
      {"sharded_ddp"},
      "FairScale's sharded data parallelism is not simulated; fsdp and deepspeed are", true);
  section.refuse_true({"use_cpu", "no_cuda"}, "training on CPUs is not forecast");
  section.refuse_true({"use_mps_device"}, "training on Apple's GPUs is not forecast");
  const auto compile = section.boolean({"torch_compile"});
  // Who names a backend or a mode means compilation (TrainingArguments.__post_init__).
  const Section::Names how{"torch_compile_backend", "torch_compile_mode"};
  if (compile && compile->value) {
    job.set("profile", &Scenario::profile, std::string("pytorch-compile"), compile->source);
  } else if (section.has(how) && job.kind != Kind::axolotl) {
    job.set("profile", &Scenario::profile, std::string("pytorch-compile"), section.source(how));
  }
  const auto liger = section.boolean({"use_liger_kernel", "enable_liger_kernel"});
  if (liger && liger->value) {
    job.approximate.push_back({liger->source.where,
                               "Liger's fused kernels: forecast as the profile's own", "profile",
                               false});
  }
  if (section.has({"sample_packing", "packing"})) section.irrelevant({"sample_packing", "packing"});
  section.refuse_any({"rl", "use_vllm", "num_generations", "reward_funcs"},
                     "reinforcement learning, which generates too, is not simulated");
  // TRL's supervised losses are all over the same logits.
  const Value* loss = section.peek("loss_type");
  if (loss != nullptr &&
      (loss->text == "nll" || loss->text == "dft" || loss->text == "chunked_nll")) {
    section.irrelevant({"loss_type"});
  } else {
    section.refuse_any(
        {"loss_type"},
        "preference optimization, which runs a reference model too, is not simulated");
  }
  section.refuse_any({"beta"},
                     "preference optimization, which runs a reference model too, is not simulated");
  if (const auto stage = section.word({"stage"}); stage && job.kind == Kind::llama_factory) {
    const std::string kind = choice(*stage, {"pt", "sft", "rm", "ppo", "dpo", "kto"});
    if (kind != "pt" && kind != "sft") {
      job.unsupported.push_back({stage->source.where,
                                 fmt::format("{} runs more than one model in a step; pt and sft "
                                             "are simulated",
                                             kind),
                                 "", false});
    }
  }
  section.irrelevant(idle_trainer_keys());
  section.irrelevant({"ddp_find_unused_parameters", "ddp_bucket_cap_mb", "ddp_broadcast_buffers",
                      "ddp_static_graph"});
  if (job.kind == Kind::llama_factory) section.irrelevant(idle_llama_factory_keys());
  if (job.kind == Kind::axolotl) section.irrelevant(idle_axolotl_keys());
  section.close();
}

}  // namespace stepcast::jobs
