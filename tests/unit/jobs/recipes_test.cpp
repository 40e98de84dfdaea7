// What single keys mean, of llm-foundry, Lightning, nanotron, litgpt and NeMo; whole files are in
// tests/interop.
#include <string>

#include "tests/unit/jobs/said.hpp"

using namespace stepcast;
using namespace stepcast::test;

TEST_CASE("llm-foundry reduces in every micro-batch and prefetches after backward") {
  const Scenario s = scenario_of(
      "variables: {n: 2048}\nmax_seq_len: ${variables.n}\nglobal_train_batch_size: 256\n"
      "device_train_microbatch_size: 4\nprecision: amp_bf16\n"
      "fsdp_config: {sharding_strategy: SHARD_GRAD_OP, mixed_precision: DEFAULT}\n",
      flags_of("gpus = 16\n"));
  CHECK(s.strategy == Word("fsdp1"));
  CHECK(s.sharding_strategy == Word("SHARD_GRAD_OP"));
  CHECK(s.backward_prefetch == Word("post"));
  CHECK(s.accumulation_sync == Word("every"));
  CHECK(s.precision == Word("bf16-mixed"));
  CHECK(s.accumulation == std::optional<std::int64_t>(4));  // 256 / (4 x 16)
  CHECK(s.seq_len == std::optional<std::int64_t>(2048));
}

TEST_CASE("llm-foundry's amp_fp16 is fp16 under FSDP too") {
  const auto with = [](const std::string& mixed) {
    return combined(
        "max_duration: 1ba\nglobal_train_batch_size: 8\nprecision: amp_fp16\n"
        "fsdp_config: {sharding_strategy: FULL_SHARD, mixed_precision: " +
        mixed + "}\n");
  };
  CHECK(with("DEFAULT").scenario.precision == Word("fp16-mixed"));
  const jobs::Combined pure = with("PURE");
  CHECK(pure.scenario.precision == Word("fp16-mixed"));
  REQUIRE_FALSE(pure.notes.empty());
  CHECK(has(pure.notes.back(), "reduced in fp32, not in fp16"));
}

TEST_CASE("llm-foundry's hybrid shards have their degree, and a run says its GPUs") {
  const Scenario s = scenario_of(
      "name: r\ncompute: {gpus: 32, cluster: c}\nparameters:\n  global_train_batch_size: 64\n"
      "  device_train_microbatch_size: 2\n  parallelism_config:\n    fsdp:\n"
      "      sharding_strategy: HYBRID_SHARD\n      data_parallel_shard_degree: 16\n"
      "      data_parallel_replicate_degree: 2\n");
  CHECK(s.sharding_strategy == Word("HYBRID_SHARD"));
  CHECK(s.shard_group == std::optional<std::int64_t>(16));
  CHECK(s.gpus == std::optional<std::int64_t>(32));
  CHECK(s.accumulation == std::optional<std::int64_t>(1));  // 64 / (2 x 32)
}

TEST_CASE("Lightning's strategies are words or classes with arguments") {
  const auto trainer = [](const std::string& strategy, const std::string& precision) {
    return scenario_of("trainer:\n  devices: 8\n  num_nodes: 2\n  precision: " + precision +
                       "\n  strategy: " + strategy + "\n");
  };
  CHECK(trainer("ddp", "bf16-mixed").precision == Word("amp-bf16"));
  CHECK(trainer("fsdp", "bf16-true").strategy == Word("fsdp1"));
  CHECK(trainer("fsdp", "bf16-true").precision == Word("bf16-pure"));
  CHECK(trainer("deepspeed_stage_3", "bf16-mixed").strategy == Word("zero3"));
  CHECK(trainer("deepspeed_stage_3", "bf16-mixed").precision == Word("bf16-master"));
  CHECK(trainer("deepspeed_stage_2", "bf16-mixed").reduce_bucket_size ==
        std::optional<std::int64_t>(200'000'000));
  CHECK(trainer("ddp", "32").nodes == std::optional<std::int64_t>(2));
  CHECK(trainer("ddp", "32").gpus_per_node == std::optional<std::int64_t>(8));
  const Scenario target = trainer(
      "\n    class_path: lightning.pytorch.strategies.FSDPStrategy\n    init_args:\n"
      "      sharding_strategy: SHARD_GRAD_OP\n      limit_all_gathers: false",
      "bf16-true");
  CHECK(target.sharding_strategy == Word("SHARD_GRAD_OP"));
  CHECK(target.limit_all_gathers == std::optional<bool>(false));
}

TEST_CASE("nanotron is DDP or ZeRO-1 with gradients in fp32") {
  const auto job = [](const std::string& stage) {
    return "parallelism: {dp: 8, tp: 1, pp: 1}\noptimizer: {zero_stage: " + stage +
           ", accumulate_grad_in_fp32: true}\nmodel: {dtype: bfloat16, ddp_bucket_cap_mb: 50}\n"
           "tokens: {micro_batch_size: 2, batch_accumulation_per_replica: 4, sequence_length: "
           "1024}\n";
  };
  CHECK(scenario_of(job("0")).strategy == Word("ddp"));
  CHECK(scenario_of(job("0")).bucket_cap_mb == std::optional<double>(50));
  CHECK(scenario_of(job("1")).strategy == Word("zero1"));
  CHECK(scenario_of(job("1")).precision == Word("bf16-master-grad-fp32"));
  CHECK(scenario_of(job("1")).accumulation == std::optional<std::int64_t>(4));
  CHECK(scenario_of(job("1")).gpus == std::optional<std::int64_t>(8));
  const auto parallel = [](const std::string& more) {
    return scenario_of("parallelism: {dp: 8, p2p_engine: nccl, " + more + "}\ntokens: {}\n")
        .checkpointing;
  };
  CHECK(parallel("recompute_layer: true") == Word("full"));
  CHECK(parallel("recompute_layer: false") == Word("none"));
  CHECK(parallel("recompute_granularity: selective") == Word("selective"));
}

TEST_CASE("nanotron's GPUs are its data-parallel ranks times the GPUs of a replica") {
  const std::string job =
      "parallelism: {dp: 8, tp: 4, pp: 2}\ntokens: {micro_batch_size: 2, "
      "batch_accumulation_per_replica: 4, sequence_length: 1024}\n";
  const Scenario s = scenario_of(job, flags_of("replica_step_ms = 90.0\n"));
  CHECK(s.gpus == std::optional<std::int64_t>(64));
  CHECK(s.replica_gpus == std::optional<std::int64_t>(8));
  CHECK(s.replica_inner == std::optional<std::int64_t>(4));
}

TEST_CASE("litgpt shards fully where it finetunes and within nodes where it pretrains") {
  const std::string train =
      "devices: auto\nprecision: bf16-true\ntrain: {micro_batch_size: 4, "
      "global_batch_size: 64}\n";
  const Scenario finetune = scenario_of(train + "checkpoint_dir: x/Llama-2-7b-hf\n");
  CHECK(finetune.sharding_strategy == Word("FULL_SHARD"));
  CHECK(finetune.checkpointing == Word("full"));
  CHECK(finetune.model == Word("llama-2-7b"));
  const Scenario pretrain = scenario_of(train + "model_name: Llama-2-7b-hf\n");
  CHECK(pretrain.sharding_strategy == Word("HYBRID_SHARD"));
  CHECK_FALSE(pretrain.checkpointing.has_value());
}

TEST_CASE("NeMo's Megatron models say batches and degrees in their own table") {
  const auto job = [](const std::string& degree) {
    return "trainer: {devices: 8, num_nodes: 1, precision: bf16}\nmodel: {micro_batch_size: 2, "
           "global_batch_size: 64, tensor_model_parallel_size: " +
           degree + "}\n";
  };
  const Scenario s = scenario_of(job("1"));
  CHECK(s.micro_batch == std::optional<std::int64_t>(2));
  CHECK(s.accumulation == std::optional<std::int64_t>(4));  // 64 / (2 x 8)
  CHECK(has(refusal(job("2")), "2 tensor-parallel GPUs"));
}

TEST_CASE("Lightning's other strategies are refused by name, not taken for DDP") {
  const auto with = [](const std::string& keys) { return "trainer: {devices: 8, " + keys + "}\n"; };
  for (const char* name : {"ddp_sharded", "ddp_fully_sharded", "ddp2", "horovod", "xla_fsdp",
                           "colossalai", "hpu_parallel"}) {
    CHECK(has(refusal(with(std::string("strategy: ") + name)),
              std::string("job:1: trainer.strategy: Lightning's ") + name +
                  " is not simulated; ddp, fsdp and deepspeed are"));
  }
  CHECK(scenario_of(with("strategy: ddp_find_unused_parameters_false")).strategy == Word("ddp"));
  CHECK(scenario_of(with("strategy: ddp_spawn")).strategy == Word("ddp"));
  CHECK(has(refusal(with("accelerator: hpu")), "training on GPUs alone"));
}

TEST_CASE("before Lightning 1.5 the strategy stands in accelerator or plugins") {
  const auto with = [](const std::string& keys) { return "trainer: {gpus: 8, " + keys + "}\n"; };
  CHECK(scenario_of(with("accelerator: ddp")).strategy == Word("ddp"));
  CHECK(scenario_of(with("accelerator: dp")).strategy == Word("dp"));
  CHECK(scenario_of(with("accelerator: gpu")).strategy == Word("ddp"));
  CHECK(scenario_of(with("accelerator: ddp, plugins: deepspeed_stage_3, amp_backend: native"))
            .strategy == Word("zero3"));
  CHECK(scenario_of(with("accelerator: ddp, plugins: [deepspeed_stage_2]")).strategy ==
        Word("zero2"));
  CHECK(has(refusal(with("accelerator: ddp, plugins: ddp_sharded")),
            "job:1: trainer.plugins: Lightning's ddp_sharded is not simulated"));
}

TEST_CASE("Lightning's devices are a number or a list of GPUs") {
  const auto gpus = [](const std::string& devices) {
    return scenario_of("trainer: {strategy: ddp, " + devices + "}\n").gpus_per_node;
  };
  CHECK(gpus("devices: 4") == std::optional<std::int64_t>(4));
  CHECK(gpus("devices: \"4\"") == std::optional<std::int64_t>(4));
  CHECK(gpus("devices: \"0,1,2\"") == std::optional<std::int64_t>(3));
  CHECK(gpus("gpus: \"0,\"") == std::optional<std::int64_t>(1));
  CHECK(gpus("gpus: [0, 1]") == std::optional<std::int64_t>(2));
  CHECK_FALSE(gpus("devices: auto").has_value());
  CHECK(has(refusal("trainer: {strategy: ddp, devices: \"a,b\"}\n"), "\"a,b\" is not accepted"));
}

TEST_CASE("NeMo's distributed optimizer is refused, a flag settles it") {
  const std::string text =
      "trainer: {devices: 8, precision: bf16}\nmodel: {micro_batch_size: 2, global_batch_size: 64,"
      " tensor_model_parallel_size: 1, activations_checkpoint_granularity: full, optim: {name: "
      "distributed_fused_adam}}\n";
  CHECK(has(refusal(text), "job:2: model.optim.name: Megatron's distributed optimizer"));
  const Scenario s = scenario_of(text, flags_of("strategy = \"zero1\"\n"));
  CHECK(s.strategy == Word("zero1"));
  CHECK(s.checkpointing == Word("full"));
}
