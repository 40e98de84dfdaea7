// PyTorch Lightning's trainer section, as LightningCLI, Hydra (NeMo) and plain YAML files hold it.
//
//   trainer:
//     devices: 8            # -1 and auto: all GPUs of the machines
//     num_nodes: 2
//     precision: bf16-true
//     strategy: fsdp        # a word, or class_path / _target_ with its arguments
//
// The rest of such files (model, data, callbacks) is the program's own and is not read.
//
// Source: lightning 2.x strategies/fsdp.py, ddp.py, deepspeed.py, plugins/precision/fsdp.py. Tested
// by tests/unit/jobs/recipes_test.cpp and, file by file, tests/interop.

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "sim/jobs/lightning_parts.hpp"

namespace stepcast::jobs {

namespace {

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

// Before 1.5 the strategy stood in accelerator, and in plugins what shards.
std::optional<Fact<std::string>> old_strategy(Section& trainer) {
  if (const Value* plugins = trainer.peek("plugins");
      plugins != nullptr && (plugins->kind == Value::Kind::text || !plugins->items.empty())) {
    const Value& first = plugins->kind == Value::Kind::text ? *plugins : plugins->items.front();
    for (const char* start : {"ddp", "deepspeed", "fsdp", "fully_sharded"}) {
      if (first.kind != Value::Kind::text || !first.text.starts_with(start)) continue;
      trainer.take({"plugins"});
      return Fact<std::string>{first.text, trainer.source({"plugins"})};
    }
  }
  const Value* accelerator = trainer.peek("accelerator");
  if (accelerator == nullptr || accelerator->kind != Value::Kind::text) return std::nullopt;
  for (const char* start : {"ddp", "dp", "horovod"}) {
    if (!accelerator->text.starts_with(start)) continue;
    return Fact<std::string>{accelerator->text, trainer.source({"accelerator"})};
  }
  return std::nullopt;
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
  } else if (const auto old = old_strategy(trainer)) {
    name = old->value;
    from = old->source;
  }
  name = name.substr(name.rfind('.') == std::string::npos ? 0 : name.rfind('.') + 1);
  Section nothing(empty_table(), "trainer.strategy", job);
  Section& args = arguments ? *arguments : nothing;
  const auto strategy = [&](const char* ours) {
    job.set("strategy", &Scenario::strategy, std::string(ours), from);
  };
  static const char* const others[] = {"ddp_sharded",
                                       "ddp_fully_sharded",
                                       "ddp2",
                                       "ddp_cpu",
                                       "horovod",
                                       "bagua",
                                       "colossalai",
                                       "collaborative",
                                       "hivemind",
                                       "xla",
                                       "tpu_",
                                       "hpu_",
                                       "single_tpu",
                                       "single_hpu",
                                       "ipu",
                                       "DDPSharded",
                                       "DDPFullySharded",
                                       "DDP2",
                                       "Horovod",
                                       "XLA",
                                       "SingleDeviceXLA"};
  if (const auto* const other =
          std::find_if(std::begin(others), std::end(others),
                       [&](const char* start) { return name.starts_with(start); });
      other != std::end(others)) {
    job.unsupported.push_back(
        {from.where,
         fmt::format("Lightning's {} is not simulated; ddp, fsdp and deepspeed are",
                     name.substr(0, 40)),
         "strategy", false});
    args.irrelevant({"*"});
  } else if (name == "auto" || name == "DDPStrategy" || name.starts_with("ddp") ||
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

// NeMo's Megatron models keep Megatron's own data parallelism below Lightning's trainer.
void read_megatron_of_nemo(Section& model) {
  if (!model.has({"tensor_model_parallel_size", "mcore_gpt", "megatron_amp_O2"})) return;
  Job& job = model.job();
  if (auto optim = model.section({"optim"})) {
    const auto name = optim->word({"name"});
    if (name && name->value.find("distributed_fused_adam") != std::string::npos) {
      job.unsupported.push_back(
          {name->source.where,
           "Megatron's distributed optimizer, which shards the optimizer's state, is not "
           "simulated; --strategy zero1 is nearest",
           "strategy", true});
    }
  }
  if (const auto how = model.word({"activations_checkpoint_granularity"})) {
    job.set("checkpointing", &Scenario::checkpointing, choice(*how, {"full", "selective"}),
            how->source);
  }
  job.approximate.push_back({model.where("tensor_model_parallel_size"),
                             "of NeMo's Megatron model only batch sizes, degrees, checkpointing "
                             "and the sequence length are read",
                             "", false});
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
    if (kind->value == "cpu" || kind->value == "tpu" || kind->value == "mps" ||
        kind->value == "hpu" || kind->value == "ipu") {
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
                      "amp_*",
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
      read_megatron_of_nemo(*model);
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

}  // namespace stepcast::jobs
