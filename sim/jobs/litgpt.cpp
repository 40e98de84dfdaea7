// litgpt's configuration, read with Lightning's devices and precision words. litgpt chooses by
// itself over more than one device: FSDP1, a unit a block, full sharding with checkpoints where it
// finetunes, hybrid sharding without where it pretrains.
//
// Source: litgpt finetune/full.py, pretrain.py. Tested by tests/unit/jobs/recipes_test.cpp and,
// file by file, tests/interop.

#include "sim/jobs/lightning_parts.hpp"

namespace stepcast::jobs {

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
