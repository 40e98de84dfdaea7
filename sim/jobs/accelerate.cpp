// accelerate's configuration, as `accelerate config` writes it, in YAML or JSON.
//
// distributed_type decides: MULTI_GPU is DDP, FSDP reads fsdp_config (fsdp.cpp), DEEPSPEED reads
// deepspeed_config, either inline or as the name of a DeepSpeed JSON. parallelism_config (1.10 on)
// adds degrees: replicas times shards is HSDP; tensor-, context- and sequence-parallel degrees are
// refused. The file says nothing of the model, the sequence length or the micro-batch.
//
// DDP under accelerate autocasts: amp-bf16. Under FSDP and DeepSpeed mixed_precision becomes the
// recipe of the strategy (combine.cpp).
//
// Source: accelerate 1.x commands/config/config_args.py, utils/dataclasses.py, commands/launch.py.
// Tested by tests/unit/jobs/hugging_face_test.cpp and, file by file, tests/interop.

#include <fmt/format.h>

#include "sim/jobs/readers.hpp"

namespace stepcast::jobs {

namespace {

void read_world(Section& root) {
  Job& job = root.job();
  const auto processes = root.integer({"num_processes"}, 1, 1e7);
  const auto machines = root.integer({"num_machines"}, 1, 1e6);
  if (!processes) return;
  job.set("gpus", &Scenario::gpus, processes->value, processes->source);
  if (!machines || machines->value < 2) return;
  if (processes->value % machines->value != 0) {
    throw InputError(processes->source.where,
                     fmt::format("{} processes do not divide among {} machines ({}); accepted: a "
                                 "multiple",
                                 processes->value, machines->value, place(machines->source)));
  }
  job.set("gpus_per_node", &Scenario::gpus_per_node, processes->value / machines->value,
          Source{Origin::derived, machines->source.where, "num_processes / num_machines"});
}

void read_mixed_precision(Section& root) {
  Job& job = root.job();
  const auto said = root.word({"mixed_precision"});
  if (!said) return;
  Fact<std::string> word = *said;
  if (plain_scalar(word.value, 0).kind == Value::Kind::boolean) word.value = "no";  // no, unquoted
  const std::string type = choice(word, {"no", "fp16", "bf16", "fp8"});
  auto fp8 = root.section({"fp8_config"});
  if (type == "fp8") {
    std::optional<Fact<std::string>> backend;
    if (fp8) {
      backend = fp8->word({"backend"});
      set_fp8_all_gather(job, fp8->boolean({"enable_fsdp_float8_all_gather"}), std::nullopt);
    }
    set_fp8(job, word.source, backend);
  }
  if (fp8) {
    // How scales are made of a history, and what evaluation does.
    fp8->irrelevant({"backend", "enable_fsdp_float8_all_gather", "amax_compute_algo",
                     "amax_history_len", "fp8_format", "interval", "margin",
                     "override_linear_precision", "use_autocast_during_eval", "pad_inner_dim",
                     "opt_level", "use_mxfp8_block_scaling"});
    fp8->close();
  }
  job.dtype = {type == "no" ? "fp32" : type == "fp8" ? "bf16" : type, word.source};
}

void read_deepspeed_config(Section& config) {
  Job& job = config.job();
  if (const auto file = config.word({"deepspeed_config_file"})) {
    job.deepspeed_file = *file;
    job.through_deepspeed = true;
  } else {
    const auto stage = config.integer({"zero_stage"}, 0, 3);
    set_stage(job, stage ? stage->value : 2,
              stage ? stage->source : standard(job, "accelerate's default zero_stage"));
  }
  job.accumulation = config.integer({"gradient_accumulation_steps"}, 1, 1e9);
  if (config.is_auto({"gradient_clipping"})) config.take({"gradient_clipping"});
  const auto clip = config.word({"gradient_clipping"});
  if (clip && clip->value != "none") {
    const auto number = config.number({"gradient_clipping"}, 0, 1e30);
    job.set("clip_grad_norm", &Scenario::clip_grad_norm, number->value > 0, number->source);
  }
  for (const char* key : {"offload_optimizer_device", "offload_param_device"}) {
    const auto device = config.word({key});
    if (!device || choice(*device, {"none", "cpu", "nvme"}) == "none") continue;
    job.unsupported.push_back({device->source.where,
                               fmt::format("offload to {} is not simulated", device->value), "",
                               true});
  }
  config.irrelevant({"deepspeed_multinode_launcher", "deepspeed_hostfile",
                     "deepspeed_exclusion_filter", "deepspeed_inclusion_filter",
                     "deepspeed_moe_layer_cls_names", "zero3_init_flag", "zero3_save_16bit_model",
                     "offload_optimizer_nvme_path", "offload_param_nvme_path",
                     "seq_parallel_communication_data_type"});
  config.close();
}

void read_parallelism(Section& root) {
  auto config = root.section({"parallelism_config"});
  if (!config) return;
  Job& job = root.job();
  config->ignore_case_of_prefix("parallelism_config_");
  const auto replicate = config->integer({"dp_replicate_size"}, 1, 1e7);
  const auto shard = config->integer({"dp_shard_size"}, 1, 1e7);
  refuse_degree(*config, {"tp_size"}, "tensor-parallel");
  refuse_degree(*config, {"cp_size"}, "context-parallel");
  refuse_degree(*config, {"sp_size"}, "sequence-parallel");
  std::int64_t inner = 1;
  for (const char* key : {"tp_size", "cp_size", "sp_size"}) {
    const auto degree = config->integer({key}, 1, 1e7);
    if (degree) inner *= degree->value;
  }
  config->irrelevant({"cp_backend", "cp_comm_strategy", "sp_backend", "sp_seq_length",
                      "sp_seq_length_is_variable", "sp_attn_implementation", "tp_handler",
                      "cp_handler", "sp_handler", "ep_size"});
  config->close();
  const std::int64_t r = replicate ? replicate->value : 1;
  const std::int64_t s = shard ? shard->value : 1;
  // A hybrid of one shard and no replicas is what FSDP does anyway.
  const bool zero = job.through_deepspeed;
  if (!zero && r > 1)
    set_degrees(job, replicate, shard ? shard : Fact<std::int64_t>{1, replicate->source}, {});
  const std::int64_t product = r * s * inner;
  if (job.scenario.gpus && product > 1 && *job.scenario.gpus != product) {
    throw InputError(job.sources["gpus"].where,
                     fmt::format("{} processes, but the degrees of parallelism_config make {} "
                                 "(dp_replicate {} x dp_shard {} x tp, cp and sp {}); accepted: "
                                 "the same number",
                                 *job.scenario.gpus, product, r, s, inner));
  }
}

}  // namespace

void read_accelerate(const Value& root, Job& job) {
  Section section(root, "", job);
  read_world(section);
  read_mixed_precision(section);
  const auto type = section.word({"distributed_type"});
  std::string kind = "NO";
  if (type) {
    Fact<std::string> word = *type;
    if (plain_scalar(word.value, 0).kind == Value::Kind::boolean) word.value = "NO";
    // Before 0.30 TPU and MPS; under AMAZON_SAGEMAKER its libraries of data and model parallelism.
    kind = choice(word,
                  {"NO", "MULTI_GPU", "FSDP", "DEEPSPEED", "MEGATRON_LM", "TP", "MULTI_CPU",
                   "MULTI_XPU", "MULTI_NPU", "MULTI_MLU", "MULTI_MUSA", "MULTI_SDAA", "MULTI_HPU",
                   "MULTI_NEURON", "XLA", "TPU", "MPS", "DATA_PARALLEL", "MODEL_PARALLEL"});
  } else if (section.has({"fsdp_config"})) {
    kind = "FSDP";
  } else if (section.has({"deepspeed_config"})) {
    kind = "DEEPSPEED";
  } else if (job.scenario.gpus && *job.scenario.gpus > 1) {
    kind = "MULTI_GPU";
  }
  if (kind == "FSDP") {
    if (auto fsdp = section.section({"fsdp_config"})) {
      read_fsdp(*fsdp, {1, std::nullopt, "accelerate", "pre"});
    } else {
      Section none(empty_table(), "fsdp_config", job);
      read_fsdp(none, {1, std::nullopt, "accelerate", "pre"});
    }
  } else if (kind == "DEEPSPEED") {
    if (auto deepspeed = section.section({"deepspeed_config"})) {
      read_deepspeed_config(*deepspeed);
    } else {
      set_stage(job, 2, standard(job, "accelerate's default zero_stage"));
    }
  } else if (kind == "MULTI_GPU" || kind == "NO") {
    // One process wraps nothing: DDP over one GPU, which sends nothing.
    job.set("strategy", &Scenario::strategy, std::string("ddp"),
            type ? type->source : standard(job, "accelerate's default"));
    if (kind == "NO" && type && !job.scenario.gpus) {
      job.set("gpus", &Scenario::gpus, 1, type->source);
    }
  } else {
    job.unsupported.push_back(
        {type->source.where,
         fmt::format("{} is not simulated; MULTI_GPU, FSDP and DEEPSPEED are", kind), "strategy",
         false});
  }
  section.irrelevant({"fsdp_config", "deepspeed_config"});
  if (const auto backend = section.word({"dynamo_backend"})) {
    if (plain_scalar(backend->value, 0).kind != Value::Kind::boolean) {
      job.set("profile", &Scenario::profile, std::string("pytorch-compile"), backend->source);
    }
  }
  if (auto dynamo = section.section({"dynamo_config"})) {
    dynamo->ignore_case_of_prefix("dynamo_");
    const auto backend = dynamo->word({"backend"});
    if (backend && plain_scalar(backend->value, 0).kind != Value::Kind::boolean) {
      job.set("profile", &Scenario::profile, std::string("pytorch-compile"), backend->source);
    }
    dynamo->irrelevant({"mode", "use_dynamic", "use_fullgraph", "use_regional_compilation"});
    dynamo->close();
  }
  read_parallelism(section);
  if (!job.accumulation) {
    job.accumulation = section.integer({"gradient_accumulation_steps"}, 1, 1e9);
  } else {
    section.irrelevant({"gradient_accumulation_steps"});
  }
  section.refuse_true({"use_cpu"}, "training on CPUs is not forecast");
  section.refuse_true({"use_mps_device"}, "training on Apple's GPUs is not forecast");
  section.refuse_any({"megatron_lm_config"}, "Megatron-LM's parallelism is not simulated");
  section.irrelevant({"compute_environment",
                      "debug",
                      "downcast_bf16",
                      "enable_cpu_affinity",
                      "machine_rank",
                      "main_training_function",
                      "main_process_ip",
                      "main_process_port",
                      "rdzv_backend",
                      "rdzv_conf",
                      "same_network",
                      "tpu_env",
                      "tpu_use_cluster",
                      "tpu_use_sudo",
                      "tpu_name",
                      "tpu_zone",
                      "commands",
                      "command_file",
                      "gpu_ids",
                      "fp8_config",
                      "mpirun_config",
                      "ipex_config",
                      "deepspeed_hostfile",
                      "max_restarts",
                      "monitor_interval",
                      "aws_*",
                      "ec2_instance_type",
                      "iam_role_name",
                      "profile",
                      "region",
                      "base_job_name",
                      "pytorch_version",
                      "py_version",
                      "transformers_version",
                      "image_uri",
                      "sagemaker_*",
                      "additional_args",
                      "main_process_*",
                      "log_dir",
                      "num_cpu_threads_per_process"});
  section.close();
}

}  // namespace stepcast::jobs
