// PyTorch Lightning's trainer section, as LightningCLI, Hydra (NeMo) and plain YAML files hold it,
// and litgpt's configuration.
//
//   trainer:
//     devices: 8            # -1 and auto: all GPUs of the machines
//     num_nodes: 2
//     precision: bf16-true
//     strategy: fsdp        # a word, or class_path / _target_ with its arguments
//
// Precision under Lightning: "-true" holds everything in 16 bit (bf16-pure), "-mixed" is autocast
// under DDP. FSDPStrategy with "bf16-mixed" gathers fp32 parameters and autocasts, which is not
// simulated. The rest of such files (model, data, callbacks) is the program's own and is not read.
//
// litgpt chooses by itself over more than one device: FSDP1, a unit a block, full sharding with
// checkpoints where it finetunes, hybrid sharding without where it pretrains.
//
// Source: lightning 2.x strategies/fsdp.py, ddp.py, deepspeed.py, plugins/precision/fsdp.py; litgpt
// finetune/full.py, pretrain.py. Tested by tests/unit/jobs/recipes_test.cpp and, file by file,
// tests/interop.

#include <fmt/format.h>

#include "sim/jobs/readers.hpp"

namespace stepcast::jobs {

namespace {

void set_world(Job& job, const std::optional<Fact<std::int64_t>>& devices,
               const std::optional<Fact<std::int64_t>>& nodes) {
  const std::int64_t machines = nodes ? nodes->value : 1;
  if (nodes) job.set("nodes", &Scenario::nodes, machines, nodes->source);
  if (!devices || devices->value < 1) return;
  job.set("gpus_per_node", &Scenario::gpus_per_node, devices->value, devices->source);
  if (!nodes) job.set("nodes", &Scenario::nodes, 1, standard(job, "Lightning's num_nodes of 1"));
}

// 8, "8", -1, "auto", [0, 1, 2].
std::optional<Fact<std::int64_t>> read_devices(Section& trainer) {
  if (trainer.is_auto({"devices"})) {
    trainer.take({"devices"});
    return std::nullopt;
  }
  if (const Value* said = trainer.peek("devices");
      said != nullptr && said->kind == Value::Kind::list) {
    trainer.take({"devices"});
    return Fact<std::int64_t>{static_cast<std::int64_t>(said->items.size()),
                              trainer.source({"devices"})};
  }
  return trainer.integer({"devices", "gpus"}, -1, 1024);
}

void set_precision(Job& job, const std::optional<Fact<std::string>>& said) {
  const std::string strategy = job.scenario.strategy.value_or("ddp");
  const bool fsdp = strategy.starts_with("fsdp") || strategy == "hsdp";
  const bool zero = strategy.starts_with("zero") || job.through_deepspeed;
  if (!said) {
    job.set("precision", &Scenario::precision, std::string("fp32"),
            standard(job, "Lightning's default of 32-true"));
    return;
  }
  const std::string word = choice(
      *said, {"32-true", "32", "bf16-mixed", "bf16", "16-mixed", "16", "bf16-true", "16-true",
              "64-true", "64", "transformer-engine", "transformer-engine-float16", "fp16"});
  const bool half = word.starts_with("16") || word == "fp16";
  const bool bf16 = word.starts_with("bf16");
  std::string recipe;
  if (word.starts_with("32")) {
    recipe = "fp32";
  } else if (zero && (bf16 || half)) {
    recipe = bf16 ? "bf16-master" : "fp16-master";
  } else if (word == "bf16-true") {
    recipe = "bf16-pure";
  } else if (!fsdp && (bf16 || half) && word != "16-true") {
    recipe = bf16 ? "amp-bf16" : "amp-fp16";
  } else {
    const bool autocast =
        fsdp && (word == "bf16-mixed" || word == "16-mixed" || word == "bf16" || word == "16");
    job.unsupported.push_back(
        {said->source.where,
         autocast ? fmt::format("{} under FSDP gathers fp32 parameters and autocasts, which is not "
                                "simulated; bf16-true is, or give --precision",
                                word)
                  : fmt::format("precision {} is not simulated; give --precision", word),
         "precision", false});
    return;
  }
  job.set("precision", &Scenario::precision, recipe, said->source);
}

void read_ddp(Section& arguments) {
  Job& job = arguments.job();
  const struct {
    const char* key;
    std::optional<bool> Scenario::*field;
  } switches[] = {{"find_unused_parameters", &Scenario::find_unused_parameters},
                  {"gradient_as_bucket_view", &Scenario::gradient_as_bucket_view},
                  {"static_graph", &Scenario::static_graph},
                  {"broadcast_buffers", &Scenario::broadcast_buffers}};
  for (const auto& row : switches) {
    if (const auto read = arguments.boolean({row.key})) {
      job.set(row.key, row.field, read->value, read->source);
    }
  }
  if (const auto cap = arguments.number({"bucket_cap_mb"}, 1e-6, 1e6)) {
    job.set("bucket_cap_mb", &Scenario::bucket_cap_mb, cap->value, cap->source);
  }
  arguments.refuse_any({"ddp_comm_hook"}, "give --comm-hook with the hook that is meant");
  arguments.refuse_any({"model_averaging_period"}, "post-local SGD is not simulated");
}

void read_fsdp_strategy(Section& arguments) {
  Job& job = arguments.job();
  const auto sharding = arguments.word({"sharding_strategy"});
  job.set("sharding_strategy", &Scenario::sharding_strategy,
          sharding ? sharding_name(*sharding) : std::string("FULL_SHARD"),
          sharding ? sharding->source : standard(job, "Lightning's default"));
  const struct {
    const char* key;
    std::optional<bool> Scenario::*field;
  } switches[] = {{"forward_prefetch", &Scenario::forward_prefetch},
                  {"limit_all_gathers", &Scenario::limit_all_gathers},
                  {"use_orig_params", &Scenario::use_orig_params}};
  for (const auto& row : switches) {
    if (const auto read = arguments.boolean({row.key})) {
      job.set(row.key, row.field, read->value, read->source);
    }
  }
  if (const auto prefetch = arguments.word({"backward_prefetch"})) {
    const std::string word = choice(*prefetch, {"BACKWARD_PRE", "BACKWARD_POST"});
    job.set("backward_prefetch", &Scenario::backward_prefetch,
            std::string(word == "BACKWARD_PRE" ? "pre" : "post"), prefetch->source);
  }
  if (arguments.has({"activation_checkpointing_policy", "activation_checkpointing"})) {
    job.set("checkpointing", &Scenario::checkpointing, std::string("full"),
            arguments.source({"activation_checkpointing_policy", "activation_checkpointing"}));
  }
  arguments.take({"activation_checkpointing_policy", "activation_checkpointing"});
  arguments.refuse_any({"cpu_offload"}, "CPU offload of parameters is not simulated", true);
  arguments.refuse_any({"mixed_precision"}, "a table of dtypes is not read; give --precision");
  arguments.irrelevant(
      {"auto_wrap_policy", "state_dict_type", "device_mesh", "sync_module_states"});
}

void read_deepspeed_strategy(Section& arguments, std::int64_t stage) {
  Job& job = arguments.job();
  if (const auto said = arguments.integer({"stage"}, 0, 3)) stage = said->value;
  set_stage(job, stage,
            arguments.has({"stage"}) ? arguments.source({"stage"})
                                     : standard(job, "Lightning's default stage"));
  for (const char* key : {"offload_optimizer", "offload_parameters"}) {
    arguments.refuse_true({key}, "CPU offload is not simulated", true);
  }
  if (const auto file = arguments.word({"config"})) job.deepspeed_file = *file;
  if (stage > 0) {
    // Lightning's own defaults, which are not DeepSpeed's.
    const auto bucket = arguments.integer({"reduce_bucket_size"}, 1, 1e15);
    job.set("reduce_bucket_size", &Scenario::reduce_bucket_size,
            bucket ? bucket->value : 200'000'000,
            bucket ? bucket->source : standard(job, "Lightning's default"));
    const auto overlap = arguments.boolean({"overlap_comm"});
    job.set("overlap_comm", &Scenario::overlap_comm, overlap ? overlap->value : true,
            overlap ? overlap->source : standard(job, "Lightning's default"));
  }
  if (stage == 3) {
    const auto group = arguments.integer({"sub_group_size"}, 1e5, 1e15);
    job.set("sub_group_size", &Scenario::sub_group_size, group ? group->value : 1'000'000'000'000,
            group ? group->source : standard(job, "Lightning's default"));
  }
  arguments.irrelevant({"*"});
}

// "fsdp", "deepspeed_stage_3", "ddp_find_unused_parameters_true", or a class and its arguments.
void read_strategy(Section& trainer) {
  Job& job = trainer.job();
  std::optional<Section> arguments;
  std::string name = "auto";
  Source from = standard(job, "Lightning's default over several devices");
  const Value* said = trainer.peek("strategy");
  if (said != nullptr && said->is_map()) {
    arguments = trainer.section({"strategy"});
    if (arguments) {
      from = trainer.source({"strategy"});
      if (const auto kind = arguments->word({"_target_", "class_path", "name"})) {
        name = kind->value;
        from = kind->source;
      }
      if (auto nested = arguments->section({"init_args"})) arguments = nested;
    }
  } else if (const auto word = trainer.word({"strategy", "accelerator_strategy"})) {
    name = word->value;
    from = word->source;
  }
  name = name.substr(name.rfind('.') == std::string::npos ? 0 : name.rfind('.') + 1);
  Section nothing(empty_table(), "trainer.strategy", job);
  Section& args = arguments ? *arguments : nothing;
  const auto strategy = [&](const char* ours) {
    job.set("strategy", &Scenario::strategy, std::string(ours), from);
  };
  if (name == "auto" || name == "DDPStrategy" || name.starts_with("ddp") ||
      name == "SingleDeviceStrategy") {
    strategy("ddp");
    if (name.find("find_unused_parameters_true") != std::string::npos) {
      job.set("find_unused_parameters", &Scenario::find_unused_parameters, true, from);
    }
    read_ddp(args);
  } else if (name == "dp" || name == "DataParallelStrategy") {
    strategy("dp");
  } else if (name == "FSDPStrategy" || name == "fsdp" || name == "fsdp_native") {
    strategy("fsdp1");
    read_fsdp_strategy(args);
  } else if (name == "fsdp_cpu_offload" || name == "fsdp_native_full_shard_offload") {
    strategy("fsdp1");
    job.unsupported.push_back({from.where, "CPU offload of parameters is not simulated", "", true});
  } else if (name == "ModelParallelStrategy") {
    refuse_degree(args, {"tensor_parallel_size"}, "tensor-parallel");
    strategy("fsdp2");
    if (const auto size = args.integer({"data_parallel_size"}, 1, 1e7)) {
      job.world = {size->value, size->source};
    }
    args.irrelevant({"save_distributed_checkpoint"});
  } else if (name.starts_with("deepspeed") || name == "DeepSpeedStrategy") {
    const std::size_t digit = name.find_first_of("123");
    if (name.ends_with("_offload")) {
      job.unsupported.push_back({from.where, "CPU offload is not simulated", "", true});
    }
    read_deepspeed_strategy(args, digit == std::string::npos ? 2 : name[digit] - '0');
    if (digit != std::string::npos) job.sources["strategy"] = from;
  } else {
    throw not_accepted(from.where, name.substr(0, 80),
                       {"auto", "ddp", "fsdp", "deepspeed", "DDPStrategy", "FSDPStrategy",
                        "ModelParallelStrategy", "DeepSpeedStrategy"});
  }
  args.irrelevant({"_target_", "class_path", "name", "timeout", "process_group_backend",
                   "start_method", "accelerator", "parallel_devices", "cluster_environment",
                   "checkpoint_io", "precision_plugin", "timeout_seconds"});
  args.close();
}

}  // namespace

void read_lightning(const Value& root_value, Job& job) {
  Section outer(root_value, "", job);
  std::optional<Section> inner = outer.section({"trainer"});
  Section& trainer = inner ? *inner : outer;
  set_world(job, read_devices(trainer), trainer.integer({"num_nodes"}, 1, 1e6));
  read_strategy(trainer);
  set_precision(job, trainer.word({"precision"}));
  job.accumulation = trainer.integer({"accumulate_grad_batches"}, 1, 1e9);
  if (!job.accumulation) {
    job.accumulation = {1, standard(job, "Lightning's accumulate_grad_batches of 1")};
  }
  const auto clip = trainer.number({"gradient_clip_val"}, 0, 1e30);
  if (clip) job.set("clip_grad_norm", &Scenario::clip_grad_norm, clip->value > 0, clip->source);
  if (const auto kind = trainer.word({"accelerator"})) {
    if (kind->value == "cpu" || kind->value == "tpu") {
      job.unsupported.push_back(
          {kind->source.where, "training on GPUs alone is forecast", "", false});
    }
  }
  trainer.irrelevant({"max_*",
                      "min_*",
                      "limit_*",
                      "val_check_interval",
                      "check_val_every_n_epoch",
                      "log_every_n_steps",
                      "num_sanity_val_steps",
                      "enable_*",
                      "logger",
                      "callbacks",
                      "use_distributed_sampler",
                      "replace_sampler_ddp",
                      "fast_dev_run",
                      "overfit_batches",
                      "deterministic",
                      "benchmark",
                      "inference_mode",
                      "profiler",
                      "detect_anomaly",
                      "barebones",
                      "plugins",
                      "sync_batchnorm",
                      "reload_dataloaders_every_n_epochs",
                      "default_root_dir",
                      "model_registry",
                      "gradient_clip_algorithm",
                      "resume_from_checkpoint",
                      "checkpoint_callback",
                      "_target_",
                      "auto_*",
                      "num_processes",
                      "progress_bar_refresh_rate",
                      "weights_summary",
                      "precision_plugin"});
  // The batch lies where the program keeps its data; only the plain place is read.
  if (inner) {
    if (auto data = outer.section({"data"})) {
      std::optional<Section> place = data->section({"train_ds", "init_args"});
      Section& loader = place ? *place : *data;
      job.micro_batch = loader.integer({"batch_size", "micro_batch_size"}, 1, 1e9);
    }
    if (auto model = outer.section({"model"})) {
      const std::string partly =
          "a part of the parameters is frozen or adapted; stepcast's step trains all of them";
      model->refuse_any({"freeze_params", "freeze", "lora", "peft"}, partly);
      // NeMo's Megatron models say batches and degrees here.
      refuse_degree(*model, {"tensor_model_parallel_size"}, "tensor-parallel");
      refuse_degree(*model, {"pipeline_model_parallel_size"}, "pipeline-parallel");
      refuse_degree(*model, {"context_parallel_size"}, "context-parallel");
      job.global_batch = model->integer({"global_batch_size"}, 1, 1e12);
      if (job.global_batch) job.accumulation.reset();
      const auto micro = model->integer({"micro_batch_size"}, 1, 1e9);
      if (micro) job.micro_batch = micro;
      if (const auto length = model->integer({"encoder_seq_length", "max_seq_length"}, 1, 1e9)) {
        job.set("seq_len", &Scenario::seq_len, length->value, length->source);
      }
    }
    for (const auto& [key, value] : root_value.entries) {
      if (key != "trainer") job.irrelevant.push_back(key);
    }
    trainer.close();
  } else {
    outer.close();
  }
  if (!job.micro_batch) {
    job.asked.push_back({"micro_batch",
                         {.file = job.file, .line = 0, .key = "batch_size"},
                         "no batch size that is known to be a GPU's; give --micro-batch",
                         true});
  }
}

void read_litgpt(const Value& root_value, Job& job) {
  Section root(root_value, "", job);
  const auto devices = read_devices(root);
  const auto nodes = root.integer({"num_nodes"}, 1, 1e6);
  set_world(job, devices, nodes);
  // Nothing said of devices, or "auto": all of the machine's.
  const bool many = !devices || devices->value != 1 || (nodes && nodes->value > 1);
  const bool pretraining = root.has({"model_name"}) && !root.has({"checkpoint_dir"});
  if (many) {
    const Source own = standard(job, "litgpt's choice over more than one device");
    job.set("strategy", &Scenario::strategy, std::string("fsdp1"), own);
    job.set("sharding_strategy", &Scenario::sharding_strategy,
            std::string(pretraining ? "HYBRID_SHARD" : "FULL_SHARD"), own);
    if (!pretraining) job.set("checkpointing", &Scenario::checkpointing, std::string("full"), own);
  } else {
    job.set("strategy", &Scenario::strategy, std::string("ddp"),
            standard(job, "one device: nothing is sharded"));
  }
  set_precision(job, root.word({"precision"}));
  job.model = root.word({"checkpoint_dir", "model_name"});
  if (auto train = root.section({"train"})) {
    job.batch_words = "global_batch_size";
    job.micro_batch = train->integer({"micro_batch_size"}, 1, 1e9);
    job.global_batch = train->integer({"global_batch_size"}, 1, 1e12);
    if (const auto length = train->integer({"max_seq_length"}, 1, 1e9)) {
      job.set("seq_len", &Scenario::seq_len, length->value, length->source);
    }
    if (const auto clip = train->number({"max_norm"}, 0, 1e30)) {
      job.set("clip_grad_norm", &Scenario::clip_grad_norm, clip->value > 0, clip->source);
    }
    train->irrelevant({"save_interval", "log_interval", "lr_warmup_steps", "lr_warmup_fraction",
                       "epochs", "max_tokens", "max_steps", "max_time", "tie_embeddings", "min_lr",
                       "learning_rate", "weight_decay", "beta1", "beta2", "max_additional_steps"});
    train->close();
  }
  if (auto optimizer = root.section({"optimizer"})) {
    if (const auto name = optimizer->word({"class_path"})) {
      set_optimizer(job, *name, "adamw-foreach");
    }
    optimizer->irrelevant({"init_args"});
    optimizer->close();
  } else if (const auto name = root.word({"optimizer"})) {
    set_optimizer(job, *name, "adamw-foreach");
  }
  const std::string partly =
      "adapters train a small part of the parameters; stepcast's step trains all of them";
  root.refuse_any({"lora_r"}, partly);
  root.refuse_any({"quantize"}, "quantized parameters are not simulated");
  root.irrelevant({"out_dir", "resume", "data", "eval", "logger_name", "seed", "lora_*",
                   "access_token", "model_config", "initial_checkpoint_dir", "tokenizer_dir",
                   "access_*", "devices_*", "log"});
  root.close();
}

}  // namespace stepcast::jobs
