// What single keys mean, of accelerate, the Trainer and what is built on them; whole files are in
// tests/interop.
#include <string>

#include "tests/unit/jobs/said.hpp"

using namespace stepcast;
using namespace stepcast::test;

namespace {

std::string accelerate(const std::string& fsdp, const std::string& more = "") {
  return "distributed_type: FSDP\nmixed_precision: bf16\n" + more + "fsdp_config:\n" + fsdp;
}

}  // namespace

TEST_CASE("FSDP's sharding strategies are read as numbers, names and Python's own spelling") {
  const struct {
    const char* said;
    const char* is;
  } rows[] = {{"1", "FULL_SHARD"},
              {"2", "SHARD_GRAD_OP"},
              {"3", "NO_SHARD"},
              {"4", "HYBRID_SHARD"},
              {"5", "_HYBRID_SHARD_ZERO2"},
              {"full_shard", "FULL_SHARD"},
              {"HYBRID_SHARD_ZERO2", "_HYBRID_SHARD_ZERO2"},
              {"ShardingStrategy.SHARD_GRAD_OP", "SHARD_GRAD_OP"}};
  for (const auto& row : rows) {
    CAPTURE(row.said);
    const Scenario s =
        scenario_of(accelerate(std::string("  fsdp_sharding_strategy: ") + row.said + "\n"));
    CHECK(s.strategy == Word("fsdp1"));
    CHECK(s.sharding_strategy == Word(row.is));
  }
  CHECK(has(refusal(accelerate("  fsdp_sharding_strategy: FULL_SHARDS\n")),
            "did you mean 'FULL_SHARD'"));
  CHECK(has(refusal(accelerate("  fsdp_sharding_strategy: 6\n")), "'6' is not"));
}

TEST_CASE("FSDP2 is told by its version, with or without the prefix of the keys") {
  const Scenario s = scenario_of(accelerate("  version: 2\n  reshard_after_forward: false\n"));
  CHECK(s.strategy == Word("fsdp2"));
  CHECK(s.reshard_after_forward == std::optional<YesNoOrCount>(YesNoOrCount{false, 0}));
  CHECK(s.precision == Word("bf16-mixed-reduce-bf16"));
  CHECK_FALSE(s.sharding_strategy.has_value());
  // A name of version 1 keeps its meaning.
  const Scenario old =
      scenario_of(accelerate("  fsdp_version: 2\n  fsdp_reshard_after_forward: SHARD_GRAD_OP\n"));
  CHECK_FALSE(old.reshard_after_forward->yes);
}

TEST_CASE("both names of one key may stand when they agree, and are refused when they do not") {
  CHECK(scenario_of(accelerate("  fsdp_backward_prefetch: BACKWARD_POST\n"
                               "  fsdp_backward_prefetch_policy: BACKWARD_POST\n"))
            .backward_prefetch == Word("post"));
  CHECK(has(refusal(accelerate("  fsdp_backward_prefetch: BACKWARD_POST\n"
                               "  fsdp_backward_prefetch_policy: BACKWARD_PRE\n")),
            "job:5: fsdp_config.fsdp_backward_prefetch_policy: \"BACKWARD_PRE\" contradicts"));
}

TEST_CASE("wrapping by size is FSDP1's, with its smallest unit") {
  const Scenario s = scenario_of(
      accelerate("  fsdp_auto_wrap_policy: SIZE_BASED_WRAP\n  fsdp_min_num_params: 2000000\n"));
  CHECK(s.wrap == Word("size"));
  CHECK(s.wrap_min_params == std::optional<std::int64_t>(2'000'000));
  CHECK(has(refusal(accelerate("  fsdp_auto_wrap_policy: NO_WRAP\n")), "one FSDP unit"));
  CHECK(has(refusal(accelerate("  fsdp_version: 2\n  fsdp_auto_wrap_policy: SIZE_BASED_WRAP\n")),
            "FSDP2 units by size"));
}

TEST_CASE("accelerate's degrees make HSDP, and must make the number of processes") {
  const std::string degrees =
      "num_processes: 16\nnum_machines: 2\nparallelism_config:\n"
      "  parallelism_config_dp_replicate_size: 2\n  parallelism_config_dp_shard_size: 8\n";
  const Scenario s = scenario_of(accelerate("  fsdp_version: 2\n", degrees));
  CHECK(s.strategy == Word("hsdp"));
  CHECK(s.shard_group == std::optional<std::int64_t>(8));
  CHECK(s.gpus == std::optional<std::int64_t>(16));
  CHECK(s.gpus_per_node == std::optional<std::int64_t>(8));
  std::string wrong = degrees;
  wrong.replace(wrong.find("16"), 2, "24");
  CHECK(has(refusal(accelerate("  fsdp_version: 2\n", wrong)), "24 processes"));
}

TEST_CASE("mixed precision under accelerate is autocast for DDP, one dtype for all under FSDP") {
  const auto precision = [](const std::string& type, const std::string& mixed) {
    return scenario_of("distributed_type: " + type + "\nmixed_precision: " + mixed + "\n")
        .precision;
  };
  CHECK(precision("MULTI_GPU", "bf16") == Word("amp-bf16"));
  CHECK(precision("MULTI_GPU", "no") == Word("fp32"));
  CHECK(precision("MULTI_GPU", "'no'") == Word("fp32"));
  CHECK(precision("FSDP", "bf16") == Word("bf16-mixed-reduce-bf16"));
  CHECK(precision("FSDP", "fp16") == Word("fp16-mixed"));
  CHECK(precision("DEEPSPEED", "bf16") == Word("bf16-master"));
}

TEST_CASE("the Trainer's checkpoints wrap FSDP's units, fsdp_config's lie within") {
  const std::string trainer = "output_dir: x\nbf16: true\nfsdp: full_shard auto_wrap\n";
  const Scenario outside = scenario_of(trainer + "gradient_checkpointing: true\n");
  CHECK(outside.checkpointing == Word("full"));
  CHECK(outside.checkpoint_outside_unit == std::optional<bool>(true));
  const Scenario within = scenario_of(trainer + "fsdp_config:\n  activation_checkpointing: true\n");
  CHECK(within.checkpointing == Word("full"));
  CHECK_FALSE(within.checkpoint_outside_unit.has_value());
  // Its own defaults: 8 a device, no prefetch, clipping at 1.
  CHECK(within.micro_batch == std::optional<std::int64_t>(8));
  CHECK(within.backward_prefetch == Word("none"));
  CHECK(within.clip_grad_norm == std::optional<bool>(true));
}

TEST_CASE("parameters that the Trainer loads in bf16 have no master under DDP, and one elsewhere") {
  const std::string job = "output_dir: x\nbf16: true\n";
  CHECK(scenario_of(job).precision == Word("amp-bf16"));
  CHECK(scenario_of(job + "dtype: bfloat16\n").precision == Word("bf16-pure"));
  CHECK(scenario_of(job + "torch_dtype: float32\n").precision == Word("amp-bf16"));
  CHECK(scenario_of(job + "torch_dtype: auto\n").precision == Word("amp-bf16"));
  CHECK(scenario_of(job + "torch_dtype: bfloat16\nfsdp: full_shard\n").precision ==
        Word("bf16-mixed-reduce-bf16"));
  CHECK(scenario_of("finetuning_type: full\npure_bf16: true\n").precision == Word("bf16-pure"));
}

TEST_CASE("the Trainer compiles where a backend or a mode is named") {
  CHECK(scenario_of("output_dir: x\ntorch_compile_mode: default\n").profile ==
        Word("pytorch-compile"));
  CHECK_FALSE(scenario_of("output_dir: x\ntorch_compile: false\n").profile.has_value());
}

TEST_CASE("TRL's supervised losses are a step like any other, its preferences are not") {
  CHECK(scenario_of("output_dir: x\nloss_type: nll\npadding_free: true\n").strategy == Word("ddp"));
  CHECK(has(refusal("output_dir: x\nloss_type: sigmoid\n"), "preference optimization"));
}

TEST_CASE("adapters and quantized models are refused: not all parameters train") {
  CHECK(has(refusal("base_model: x\nadapter: lora\n"), "job:2: adapter: adapters train"));
  CHECK(has(refusal("base_model: x\nload_in_4bit: true\n"), "quantized parameters"));
  CHECK(scenario_of("base_model: meta-llama/Llama-2-7b\nadapter:\nload_in_4bit: false\n").model ==
        Word("llama-2-7b"));
}

TEST_CASE("apex's AMP is off where DeepSpeed's file leaves it to the Trainer") {
  const std::string job =
      "{\"bf16\": {\"enabled\": true}, \"zero_optimization\": {\"stage\": 2}, \"amp\": "
      "{\"enabled\": ";
  CHECK(scenario_of(job + "\"auto\", \"opt_level\": \"auto\"}}").strategy == Word("zero2"));
  CHECK(has(refusal(job + "true}}"), "apex's AMP"));
}

TEST_CASE("fp8 engines of the Hugging Face family and Composer become recipes") {
  const std::string accelerate =
      "distributed_type: MULTI_GPU\nmixed_precision: fp8\nfp8_config:\n  backend: ";
  CHECK(scenario_of(accelerate + "TE\n").fp8 == Word("te-delayed"));
  CHECK(scenario_of(accelerate + "AO\n").fp8 == Word("torchao-tensorwise"));
  CHECK(has(refusal(accelerate + "MSAMP\n"), "MS-AMP"));
  // DDP gathers nothing.
  CHECK_FALSE(scenario_of(accelerate + "AO\n  enable_fsdp_float8_all_gather: true\n")
                  .fp8_all_gather.has_value());
  CHECK(scenario_of("max_seq_len: 2048\nglobal_train_batch_size: 8\n"
                    "device_train_microbatch_size: 1\nprecision: amp_fp8\n"
                    "model: {name: mpt_causal_lm}\nfsdp_config: {sharding_strategy: FULL_SHARD}\n")
            .fp8 == Word("te-delayed"));
}

TEST_CASE("accelerate's numbers of processes and machines begin at 1") {
  const std::string ddp = "distributed_type: MULTI_GPU\n";
  CHECK(has(refusal(ddp + "num_processes: 0\n"),
            "job:2: num_processes: 0 is not accepted; accepted: a whole number from 1 to "));
  CHECK(has(refusal(ddp + "num_machines: 0\nnum_processes: 8\n"),
            "job:2: num_machines: 0 is not accepted; accepted: a whole number from 1 to "));
  CHECK(scenario_of(ddp + "num_processes: 1\n").gpus == 1);
}

TEST_CASE("accelerate's types of other devices are refused, old names and SageMaker's too") {
  for (const char* type :
       {"TPU", "XLA", "MPS", "DATA_PARALLEL", "MODEL_PARALLEL", "MULTI_NEURON"}) {
    CHECK(has(refusal(std::string("distributed_type: ") + type + "\nnum_processes: 8\n"),
              std::string("job:1: distributed_type: ") + type +
                  " is not simulated; MULTI_GPU, FSDP and DEEPSPEED are"));
  }
  CHECK(has(refusal("distributed_type: 'NO'\nuse_mps_device: true\n"), "Apple's GPUs"));
}

TEST_CASE("the Trainer's fsdp_config says nothing while fsdp is empty, as its dumps have it") {
  const std::string dump = R"({"output_dir": "o", "per_device_train_batch_size": 4,
"fsdp": [], "fsdp_min_num_params": 0, "fsdp_transformer_layer_cls_to_wrap": null,
"fsdp_config": {"min_num_params": 0, "xla": false, "xla_fsdp_v2": false,
"xla_fsdp_grad_ckpt": false}, "per_gpu_eval_batch_size": null, "adafactor": false,
"use_cpu": false, "no_cuda": false, "use_mps_device": false, "deepspeed": null})";
  const Scenario s = scenario_of(dump);
  CHECK(s.strategy == Word("ddp"));
  CHECK_FALSE(s.wrap.has_value());
  CHECK(scenario_of("{\"output_dir\": \"o\", \"fsdp\": [\"full_shard\"], \"fsdp_config\": "
                    "{\"xla\": false}}")
            .strategy == Word("fsdp1"));
}

TEST_CASE("what the Trainer's old arguments mean is not passed over") {
  const std::string base = "output_dir: o\nper_device_train_batch_size: 8\n";
  CHECK(has(refusal(base + "use_cpu: true\n"), "job:3: use_cpu: training on CPUs"));
  CHECK(has(refusal(base + "no_cuda: true\n"), "training on CPUs"));
  CHECK(has(refusal(base + "adafactor: true\n"), "job:3: adafactor: optimizer adafactor is not"));
  CHECK(has(refusal(base + "sharded_ddp: zero_dp_2\n"), "FairScale's"));
}

TEST_CASE("dtypes without autocast stand beside a bf16 or fp16 that says false") {
  const std::string axolotl = "base_model: x\nmicro_batch_size: 1\nbf16: false\nfp16: false\n";
  CHECK(scenario_of(axolotl).precision == Word("fp32"));
  CHECK(scenario_of(axolotl + "bfloat16: true\n").precision == Word("bf16-pure"));
  CHECK(has(refusal(axolotl + "float16: true\n"), "job:5: float16: fp16 without autocast"));
  const std::string factory = "model_name_or_path: x\nfinetuning_type: full\n";
  CHECK(scenario_of(factory + "bf16: true\npure_bf16: false\n").precision == Word("amp-bf16"));
  CHECK(scenario_of(factory + "pure_bf16: true\n").precision == Word("bf16-pure"));
  CHECK(has(refusal(axolotl + "bfloat16: true\nfloat16: true\n"), "are both on"));
}

TEST_CASE("keys that are asked for together may say different things") {
  const Scenario s = scenario_of(
      "output_dir: o\ntorch_compile_backend: inductor\ntorch_compile_mode: reduce-overhead\n");
  CHECK(s.profile == Word("pytorch-compile"));
  const Scenario leaf = scenario_of(
      "{\"zero_optimization\": {\"stage\": 3, \"leaf_module\": {\"classes\": [\"A\"], \"names\": "
      "[\"b\", \"c\"]}}}");
  CHECK(leaf.leaf_layers == std::optional<bool>(true));
}
