// nanotron's YAML: DDP, or ZeRO-1 where optimizer.zero_stage is 1, between replicas of tp x pp
// GPUs.
//
// Parameters are bf16; with accumulate_grad_in_fp32 each gradient is added to an fp32 one and
// reduced from there. The model's sizes stand in the file.
//
// Source: nanotron config/config.py. Tested by tests/unit/jobs/recipes_test.cpp and, file by file,
// tests/interop.

#include <fmt/format.h>

#include "sim/jobs/readers.hpp"

namespace stepcast::jobs {

void read_nanotron(const Value& root_value, Job& job) {
  Section root(root_value, "", job);
  std::optional<Fact<std::int64_t>> dp;
  if (auto parallelism = root.section({"parallelism"})) {
    dp = parallelism->integer({"dp"}, 1, 1e7);
    refuse_degree(*parallelism, {"tp"}, "tensor-parallel");
    refuse_degree(*parallelism, {"pp"}, "pipeline-parallel");
    refuse_degree(*parallelism, {"cp", "context_parallel_size"}, "context-parallel");
    refuse_degree(*parallelism, {"expert_parallel_size"}, "expert-parallel");
    refuse_degree(*parallelism, {"expert_tensor_parallel_size"}, "expert-tensor-parallel");
    if (const auto whole = parallelism->boolean({"recompute_layer"})) {
      job.set("checkpointing", &Scenario::checkpointing,
              std::string(whole->value ? "full" : "none"), whole->source);
    } else if (const auto old = parallelism->word({"recompute_granularity", "recompute_mode"})) {
      job.set("checkpointing", &Scenario::checkpointing,
              choice(*old, {"full", "selective", "none"}), old->source);
    }
    parallelism->irrelevant({"pp_engine", "p2p_engine", "tp_linear_async_communication", "tp_mode",
                             "recompute_*", "tp_recompute_allgather", "moe_layer_recompute"});
    parallelism->close();
  }
  if (dp) job.set("gpus", &Scenario::gpus, dp->value, dp->source);
  job.gpus_are_replicas = true;

  std::string zero = "ddp";
  Source from = standard(job, "nanotron's default zero_stage of 0");
  bool fp32_gradients = true;
  if (auto optimizer = root.section({"optimizer"})) {
    if (const auto stage = optimizer->integer({"zero_stage"}, 0, 1)) {
      zero = stage->value == 1 ? "zero1" : "ddp";
      from = stage->source;
    }
    if (const auto wide = optimizer->boolean({"accumulate_grad_in_fp32"})) {
      fp32_gradients = wide->value;
    }
    if (const auto clip = optimizer->number({"clip_grad"}, 0, 1e30)) {
      job.set("clip_grad_norm", &Scenario::clip_grad_norm, clip->value > 0, clip->source);
    }
    if (auto factory = optimizer->section({"optimizer_factory"})) {
      const auto fused = factory->boolean({"torch_adam_is_fused"});
      if (const auto name = factory->word({"name"})) {
        set_optimizer(job, *name, !fused || fused->value ? "adamw-fused" : "adamw-foreach");
      }
      factory->irrelevant({"adam_beta1", "adam_beta2", "adam_eps"});
      factory->close();
    }
    optimizer->irrelevant({"learning_rate_scheduler", "weight_decay",
                           "weight_decay_exclude_named_params", "finetuning_adam_*", "adam_*",
                           "torch_adam_is_fused", "name"});
    optimizer->close();
  }
  job.set("strategy", &Scenario::strategy, zero, from);

  std::string dtype = "bfloat16";
  Source dtype_from = standard(job, "nanotron's default dtype");
  if (auto model = root.section({"model"})) {
    if (const auto said = model->word({"dtype"})) {
      dtype = choice(*said, {"bfloat16", "float32", "float16"});
      dtype_from = said->source;
    }
    const auto cap = model->number({"ddp_bucket_cap_mb"}, 1e-6, 1e6);
    if (cap && zero == "ddp") {
      job.set("bucket_cap_mb", &Scenario::bucket_cap_mb, cap->value, cap->source);
    }
    if (auto config = model->section({"model_config"})) {
      const struct {
        const char* key;
        const char* size;
      } sizes[] = {{"hidden_size", "hidden"},           {"num_hidden_layers", "layers"},
                   {"num_attention_heads", "heads"},    {"num_key_value_heads", "kv_heads"},
                   {"intermediate_size", "ffn_hidden"}, {"vocab_size", "vocabulary"}};
      for (const auto& size : sizes) {
        if (const auto read = config->integer({size.key}, 1, 1e9)) job.sizes[size.size] = *read;
      }
      for (const auto& [key, value] : root_value.find("model")->find("model_config")->entries) {
        if (!config->has({key.c_str()})) continue;
        config->irrelevant({key.c_str()});
      }
    }
    model->irrelevant({"init_method", "make_vocab_size_divisible_by", "model_config"});
    model->close();
  }
  if (dtype == "bfloat16") {
    job.set("precision", &Scenario::precision,
            std::string(fp32_gradients ? "bf16-master-grad-fp32" : "bf16-master"), dtype_from);
  } else {
    job.set("precision", &Scenario::precision,
            std::string(dtype == "float32" ? "fp32" : "fp16-master"), dtype_from);
  }
  if (auto tokens = root.section({"tokens"})) {
    job.micro_batch = tokens->integer({"micro_batch_size"}, 1, 1e9);
    job.accumulation = tokens->integer({"batch_accumulation_per_replica"}, 1, 1e9);
    if (const auto length = tokens->integer({"sequence_length"}, 1, 1e9)) {
      job.set("seq_len", &Scenario::seq_len, length->value, length->source);
    }
    tokens->irrelevant(
        {"limit_test_batches", "limit_val_batches", "train_steps", "val_check_interval"});
    tokens->close();
  }
  job.set("profile", &Scenario::profile, std::string("nanotron"),
          standard(job, "nanotron's kernels"));
  root.irrelevant({"checkpoints", "data_stages", "data", "general", "lighteval", "logging",
                   "profiler", "tokenizer", "s3_upload", "metrics_logging"});
  root.close();
}

}  // namespace stepcast::jobs
