// GPT-NeoX's YAML: DeepSpeed's keys, the model's sizes and the degrees side by side in one table,
// with hyphens or underscores, often in braces with comments.
//
// pipe_parallel_size 0 and 1 are one stage. Precision comes from the fp16 and bf16 tables, or from
// "precision". Checkpointing is checkpoint_activations, of every layer.
//
// Source: gpt-neox megatron/neox_arguments. Tested by tests/unit/jobs/deepspeed_test.cpp and, file
// by file, tests/interop.

#include <fmt/format.h>

#include "sim/jobs/readers.hpp"

namespace stepcast::jobs {

void read_gpt_neox(const Value& root_value, Job& job) {
  Section root(root_value, "", job);
  const auto precision = root.word({"precision"});
  read_deepspeed_keys(root);
  // NeoX fills the dtype tables from `precision` where they are missing; fp16 is its default.
  if (!root.has({"fp16", "bf16"})) {
    const std::string word =
        precision ? choice(*precision, {"fp16", "bfloat16", "fp32"}) : std::string("fp16");
    job.dtype = {word == "bfloat16" ? "bf16" : word,
                 precision ? precision->source : standard(job, "GPT-NeoX's default")};
  }
  refuse_degree(root, {"pipe_parallel_size"}, "pipeline-parallel");
  refuse_degree(root, {"model_parallel_size"}, "tensor-parallel");
  refuse_degree(root, {"context_parallel_size"}, "context-parallel");
  refuse_degree(root, {"moe_expert_parallel_size"}, "expert-parallel");
  const struct {
    const char* key;
    const char* size;
  } sizes[] = {{"hidden_size", "hidden"},
               {"num_layers", "layers"},
               {"num_attention_heads", "heads"},
               {"num_kv_heads", "kv_heads"},
               {"intermediate_size", "ffn_hidden"}};
  for (const auto& size : sizes) {
    if (const auto read = root.integer({size.key}, 1, 1e9)) job.sizes[size.size] = *read;
  }
  if (const auto length = root.integer({"seq_length"}, 1, 1e9)) {
    job.set("seq_len", &Scenario::seq_len, length->value, length->source);
  }
  if (const auto on = root.boolean({"checkpoint_activations"})) {
    job.set("checkpointing", &Scenario::checkpointing, std::string(on->value ? "full" : "none"),
            on->source);
  }
  root.refuse_any({"maml_mode", "sparsity_config"}, "sparse attention is not simulated");
  root.irrelevant({"max_position_embeddings",
                   "norm",
                   "pos_emb",
                   "no_weight_tying",
                   "gpt_j_residual",
                   "gpt_j_tied",
                   "output_layer_parallelism",
                   "attention_config",
                   "attention_dropout",
                   "hidden_dropout",
                   "weight_decay",
                   "init_method",
                   "output_layer_init_method",
                   "activation",
                   "mlp_type",
                   "use_bias_in_*",
                   "rotary_*",
                   "rms_norm_epsilon",
                   "layernorm_*",
                   "scaled_*",
                   "masked_softmax_fusion",
                   "bias_gelu_fusion",
                   "bias_dropout_fusion",
                   "rope_fusion",
                   "rmsnorm_fusion",
                   "layernorm_fusion",
                   "checkpoint_num_layers",
                   "partition_activations",
                   "synchronize_each_layer",
                   "data_impl",
                   "data_path",
                   "train_data_*",
                   "valid_data_*",
                   "test_data_*",
                   "*_data_paths",
                   "*_data_weights",
                   "split",
                   "vocab_file",
                   "merge_file",
                   "tokenizer_type",
                   "make_vocab_size_divisible_by",
                   "save",
                   "load",
                   "save_interval",
                   "save_*",
                   "load_*",
                   "finetune",
                   "checkpoint_*",
                   "train_iters",
                   "eval_*",
                   "lr_*",
                   "lr",
                   "min_lr",
                   "warmup",
                   "distributed_backend",
                   "log_*",
                   "logging_*",
                   "keep_last_n_checkpoints",
                   "extra_save_iters",
                   "use_wandb",
                   "wandb_*",
                   "tensorboard_*",
                   "tensorboard_dir",
                   "launcher",
                   "deepspeed_slurm",
                   "hostfile",
                   "master_addr",
                   "master_port",
                   "num_gpus",
                   "num_nodes",
                   "include",
                   "exclude",
                   "seed",
                   "short_seq_prob",
                   "mmap_warmup",
                   "num_workers",
                   "attention_softmax_in_fp32",
                   "adlr_autoresume*",
                   "no_load_*",
                   "no_save_*",
                   "s3_*",
                   "weight_by_num_documents",
                   "weighted_sampler_alpha",
                   "use_*",
                   "gmlp_attn_dim",
                   "pipe_partition_method",
                   "optimizer_type",
                   "zero_*",
                   "hysteresis",
                   "loss_scale*",
                   "min_scale",
                   "initial_loss_scale",
                   "dynamic_loss_scale",
                   "apply_query_key_layer_scaling",
                   "hidden_bias",
                   "norm_*",
                   "te_*",
                   "pack_impl",
                   "dataset_impl",
                   "allow_chopped",
                   "comment",
                   "monitor",
                   "deepspeed_extra_args",
                   "clip_grad",
                   "gas",
                   "batch_size",
                   "print_*",
                   "git_hash",
                   "memory_profiling*",
                   "profile*",
                   "global_num_gpus",
                   "user_script",
                   "onnx_safe",
                   "attention_*",
                   "eod_mask_loss",
                   "train_label_data_paths",
                   "reset_*",
                   "char_level_ppl",
                   "num_unique_layers",
                   "num_urls",
                   "hf_*",
                   "maximum_tokens",
                   "sample_*",
                   "recompute",
                   "sequence_parallel",
                   "expert_interval",
                   "moe_*",
                   "rwkv",
                   "mamba_*",
                   "max_*",
                   "text_gen_type",
                   "local_rank",
                   "rank",
                   "world_size",
                   "soft_prompt_tuning",
                   "deepspeed_mpi",
                   "deepspeed",
                   "dp_world_size"});
  root.close();
}

}  // namespace stepcast::jobs
