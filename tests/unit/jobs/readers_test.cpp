// What single keys mean, framework by framework; whole files are in tests/interop.
#include <algorithm>
#include <string>

#include "tests/unit/jobs/said.hpp"

using namespace stepcast;
using namespace stepcast::test;

namespace {

using Word = std::optional<std::string>;

std::string zero(const std::string& keys) { return "{\"zero_optimization\": {" + keys + "}}"; }

std::string accelerate(const std::string& fsdp, const std::string& more = "") {
  return "distributed_type: FSDP\nmixed_precision: bf16\n" + more + "fsdp_config:\n" + fsdp;
}

}  // namespace

TEST_CASE("DeepSpeed's stages are zero1 to zero3, and stage 0 is DDP with one bucket") {
  CHECK(scenario_of(zero("\"stage\": 0")).strategy == Word("ddp"));
  CHECK(scenario_of(zero("\"stage\": 0")).bucket_cap_mb == std::optional<double>(1e6));
  CHECK(scenario_of(zero("\"stage\": 1")).strategy == Word("zero1"));
  CHECK(scenario_of(zero("\"stage\": 2")).strategy == Word("zero2"));
  CHECK(scenario_of(zero("\"stage\": 3")).strategy == Word("zero3"));
  CHECK(scenario_of("{\"train_batch_size\": 8, \"zero_optimization\": true}").strategy ==
        Word("zero1"));
  CHECK(has(refusal(zero("\"stage\": 4")), "job:1: zero_optimization.stage: 4 is not accepted"));
}

TEST_CASE("DeepSpeed's keys are read under their old names, with and without stage3_") {
  const Scenario s = scenario_of(
      zero("\"stage\": 3, \"prefetch_bucket_size\": 5e7, \"max_live_parameters\": \"1e9\", "
           "\"stage3_max_reuse_distance\": 0, \"sub_group_size\": 1e12, "
           "\"stage3_gather_fp16_weights_on_model_save\": true"));
  CHECK(s.stage3_prefetch_bucket_size == std::optional<std::int64_t>(50'000'000));
  CHECK(s.stage3_max_live_parameters == std::optional<std::int64_t>(1'000'000'000));
  CHECK(s.stage3_max_reuse_distance == std::optional<std::int64_t>(0));
  CHECK(s.sub_group_size == std::optional<std::int64_t>(1'000'000'000'000));
}

TEST_CASE("keys of another stage are passed over, as DeepSpeed does, and a misspelt one is not") {
  const jobs::Combined c = combined(zero("\"stage\": 2, \"stage3_max_live_parameters\": 1e9"));
  CHECK_FALSE(c.scenario.stage3_max_live_parameters.has_value());
  CHECK(c.irrelevant ==
        std::vector<std::string>{"job: zero_optimization.stage3_max_live_parameters"});
  const std::string refused = refusal(zero("\"stage\": 2, \"reduce_bucket_sise\": 5e8"));
  CHECK(has(refused, "zero_optimization.reduce_bucket_sise"));
  CHECK(has(refused, "did you mean 'reduce_bucket_size'"));
}

TEST_CASE("dtypes of DeepSpeed are its master recipes, and both at once are refused") {
  CHECK(scenario_of("{\"bf16\": {\"enabled\": true}, \"zero_optimization\": {\"stage\": 1}}")
            .precision == Word("bf16-master"));
  CHECK(scenario_of("{\"fp16\": {\"enabled\": true}, \"zero_optimization\": {\"stage\": 2}}")
            .precision == Word("fp16-master"));
  CHECK(scenario_of(zero("\"stage\": 3")).precision == Word("fp32"));
  CHECK(scenario_of("{\"bf16\": {\"enabled\": true}, \"zero_optimization\": {\"stage\": 1}, "
                    "\"data_types\": {\"grad_accum_dtype\": \"fp32\"}}")
            .precision == Word("bf16-master-grad-fp32"));
  CHECK(has(refusal("{\"bf16\": {\"enabled\": true},\n\"fp16\": {\"enabled\": true}}"),
            "job:2: fp16.enabled: fp16 and bf16"));
}

TEST_CASE("what is not simulated stops with the sentence, and is listed when it is ignored") {
  const std::string offload =
      zero("\"stage\": 3, \"offload_param\": {\"device\": \"cpu\"}, \"zenflow\": {\"a\": 1}");
  CHECK(has(refusal(offload),
            "job:1: zero_optimization.offload_param.device: offload of parameters "
            "to the CPU is not simulated; also zero_optimization.zenflow"));
  const jobs::Combined c = combined(offload, {}, true);
  CHECK(c.scenario.strategy == Word("zero3"));
  CHECK(has(c.notes.at(1), "ignored: offload of parameters"));
  CHECK(has(c.notes.at(2), "ZenFlow"));
  // Said to be off, it is off.
  CHECK(scenario_of(zero("\"stage\": 3, \"offload_param\": {\"device\": \"none\"}")).strategy ==
        Word("zero3"));
  CHECK(has(refusal(zero("\"stage\": 2, \"cpu_offload\": true")), "CPU offload"));
  CHECK(has(refusal("{\"zero_optimization\": {\"stage\": 1}, \"tensor_parallel\": "
                    "{\"autotp_size\": 4}}"),
            "4 tensor-parallel GPUs to a replica"));
}

TEST_CASE("a flag settles what was refused for it, and another strategy takes its refusals along") {
  const std::string fp8 = "distributed_type: MULTI_GPU\nmixed_precision: fp8\n";
  CHECK(has(refusal(fp8), "--fp8 te-delayed"));
  CHECK(scenario_of(fp8, flags_of("fp8 = \"te-delayed\"")).precision == Word("amp-bf16"));
  const std::string offload = zero("\"stage\": 3, \"offload_param\": {\"device\": \"cpu\"}");
  const jobs::Combined c = combined(offload, flags_of("strategy = \"fsdp2\""));
  CHECK(c.scenario.strategy == Word("fsdp2"));
  CHECK_FALSE(c.scenario.overlap_comm.has_value());
}

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

TEST_CASE("apex's AMP is off where DeepSpeed's file leaves it to the Trainer") {
  const std::string job =
      "{\"bf16\": {\"enabled\": true}, \"zero_optimization\": {\"stage\": 2}, \"amp\": "
      "{\"enabled\": ";
  CHECK(scenario_of(job + "\"auto\", \"opt_level\": \"auto\"}}").strategy == Word("zero2"));
  CHECK(has(refusal(job + "true}}"), "apex's AMP"));
}

TEST_CASE("adapters and quantized models are refused: not all parameters train") {
  CHECK(has(refusal("base_model: x\nadapter: lora\n"), "job:2: adapter: adapters train"));
  CHECK(has(refusal("base_model: x\nload_in_4bit: true\n"), "quantized parameters"));
  CHECK(scenario_of("base_model: meta-llama/Llama-2-7b\nadapter:\nload_in_4bit: false\n").model ==
        Word("llama-2-7b"));
}

TEST_CASE("torchtitan's degrees are read from all the tables they have stood in") {
  const auto strategy = [](const std::string& tables) { return scenario_of(tables).strategy; };
  CHECK(strategy("[training]\ndata_parallel_degree = -1\n") == Word("fsdp2"));
  CHECK(strategy("[training]\ndata_parallel_shard_degree = -1\n[experimental]\n"
                 "pipeline_parallel_degree = 1\n") == Word("fsdp2"));
  CHECK(strategy("[parallelism]\ndata_parallel_replicate_degree = 4\n"
                 "data_parallel_shard_degree = 8\n") == Word("hsdp"));
  CHECK(strategy("[parallelism]\ndata_parallel_replicate_degree = 4\n"
                 "data_parallel_shard_degree = 1\n") == Word("ddp"));
  CHECK(has(refusal("[training]\ndata_parallel_shard_degree = -1\n[experimental]\n"
                    "pipeline_parallel_degree = 4\n"),
            "4 pipeline-parallel GPUs"));
  const Scenario ddp = scenario_of(
      "[parallelism]\ndata_parallel_replicate_degree = 4\n"
      "data_parallel_shard_degree = 1\n");
  CHECK(ddp.bucket_cap_mb == std::optional<double>(100));
  CHECK(ddp.gpus == std::optional<std::int64_t>(4));
  CHECK_FALSE(ddp.wrap.has_value());
  CHECK(ddp.precision == Word("amp-bf16"));
}

TEST_CASE("tensor and pipeline degrees are a replica once its time is given") {
  // 8 data-parallel ranks of 2 x 2 GPUs: 32. 64 samples over 8 ranks are 8 micro-batches of 1.
  const std::string job =
      "[training]\nlocal_batch_size = 1\nglobal_batch_size = 64\n[parallelism]\n"
      "data_parallel_shard_degree = 8\ntensor_parallel_degree = 2\n"
      "pipeline_parallel_degree = 2\n";
  CHECK(has(refusal(job), "add --replica-gpus 4 --replica-step-ms T"));
  const Scenario s = scenario_of(job, flags_of("replica_step_ms = 300.0\n"));
  CHECK(s.gpus == std::optional<std::int64_t>(32));
  CHECK(s.replica_gpus == std::optional<std::int64_t>(4));
  CHECK(s.replica_inner == std::optional<std::int64_t>(2));  // the pipeline lies outside
  CHECK(s.accumulation == std::optional<std::int64_t>(8));
  CHECK(has(refusal(job, flags_of("replica_step_ms = 300.0\ngpus = 30\n")),
            "replicas of 4 GPUs do not divide 30 GPUs"));
  // Tensor parallelism alone: all of a replica are neighbours. HSDP's shard group is counted in
  // data-parallel ranks: 32 GPUs / 2 / 4 replicas.
  const Scenario tp =
      scenario_of("[parallelism]\ndata_parallel_replicate_degree = 4\ntensor_parallel_degree = 2\n",
                  flags_of("replica_step_ms = 300.0\ncluster = \"dgx-h100\"\nnodes = 4\n"));
  CHECK(tp.replica_gpus == std::optional<std::int64_t>(2));
  CHECK_FALSE(tp.replica_inner.has_value());
  CHECK(tp.shard_group == std::optional<std::int64_t>(4));
  // Whole tensors on each GPU of a context-parallel group are not what a replica's GPUs hold.
  const jobs::Combined cp = combined("[parallelism]\ncontext_parallel_degree = 2\n",
                                     flags_of("replica_step_ms = 300.0\n"));
  bool told = false;
  for (const std::string& note : cp.notes) told = told || has(note, "lower bounds");
  CHECK(told);
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

TEST_CASE("torchtitan's list of ops is selective-op where the model's blocks take it") {
  const auto checkpointing = [](const std::string& option, const char* model) {
    return scenario_of("[training]\n[activation_checkpoint]\nmode = \"selective\"\n" + option,
                       flags_of(std::string("model = \"") + model + "\"\n"))
        .checkpointing;
  };
  const std::string op = "selective_ac_option = \"op\"\n";
  CHECK(checkpointing(op, "llama-3-8b") == Word("selective-op"));
  CHECK(checkpointing(op, "gpt2") == Word("selective"));  // q, k and v are one product
  CHECK(checkpointing("", "llama-3-8b") == Word("selective"));
}

TEST_CASE(
    "torchtitan's checkpointing before its table is by op or whole, a missing option is said") {
  const Scenario llama = flags_of("model = \"llama-3-8b\"\n");
  const auto first = [&](const char* on) {
    return scenario_of(std::string("[training]\nenable_selective_ac = ") + on + "\n", llama)
        .checkpointing;
  };
  CHECK(first("true") == Word("selective-op"));
  CHECK(first("false") == Word("full"));
  const jobs::Combined silent = combined("[training]\nseq_len = 8\n", llama);
  CHECK(std::any_of(silent.notes.begin(), silent.notes.end(), [](const std::string& note) {
    return has(note, "every second layer (2024, 2025) or by op (newer)");
  }));
  CHECK(has(refusal("[training]\n[activation_checkpoint]\nmode = \"selective\"\n"
                    "selective_ac_option = \"2\"\n"),
            "every so many layers"));
}

TEST_CASE("torchtitan's replicas divide the GPUs that there are") {
  const std::string job =
      "[parallelism]\ndata_parallel_replicate_degree = 4\n"
      "data_parallel_shard_degree = -1\n";
  const Scenario s = scenario_of(job, flags_of("cluster = \"dgx-h100\"\nnodes = 4\n"));
  CHECK(s.shard_group == std::optional<std::int64_t>(8));  // 32 GPUs / 4
  CHECK(has(refusal(job, flags_of("gpus = 30\n")), "4 replicas do not divide 30 GPUs"));
  const std::string fixed = "[parallelism]\ndata_parallel_shard_degree = 16\n";
  CHECK(scenario_of(fixed).gpus == std::optional<std::int64_t>(16));
  CHECK(has(refusal(fixed, flags_of("gpus = 8\n")), "makes 16 GPUs"));
}

TEST_CASE("torchtitan's dtypes, compilation, optimizer and fp8 become recipes and profiles") {
  const std::string training = "[training]\nmixed_precision_reduce = \"bfloat16\"\n";
  CHECK(scenario_of(training).precision == Word("bf16-mixed-reduce-bf16"));
  CHECK(scenario_of("[training]\ndtype = \"bfloat16\"\n").precision == Word("bf16-pure"));
  CHECK(scenario_of("[training]\nseq_len = 8\n").precision == Word("bf16-mixed"));
  CHECK(scenario_of("[training]\ncompile = true\n").profile == Word("torchtitan-compile"));
  CHECK(scenario_of("[training]\n[compile]\nenable = true\n").profile ==
        Word("torchtitan-compile"));
  CHECK(scenario_of("[training]\n[compile]\nenable = true\ncomponents = [\"loss\"]\n").profile ==
        Word("torchtitan-eager"));
  CHECK(scenario_of("[training]\n[optimizer]\nname = \"AdamW\"\n").optimizer ==
        Word("adamw-foreach"));
  CHECK(scenario_of("[training]\n[parallelism]\ntensor_parallel_degree = 1\n[optimizer]\n"
                    "name = \"AdamW\"\n")
            .optimizer == Word("adamw-fused"));
  const Word tensorwise("torchao-tensorwise");
  CHECK(scenario_of("[training]\n[model]\nconverters = [\"float8\"]\n").fp8 == tensorwise);
  CHECK(scenario_of("[training]\n[float8]\nenable_float8_linear = true\n").fp8 == tensorwise);
  const Scenario gathered = scenario_of(
      "[training]\n[model]\nconverters = [\"quantize.linear.float8\"]\n[quantize.linear.float8]\n"
      "enable_fsdp_float8_all_gather = true\nprecompute_float8_dynamic_scale_for_fsdp = true\n");
  CHECK(gathered.fp8_all_gather == std::optional<bool>(true));
  CHECK(gathered.fp8_precompute_scale == std::optional<bool>(true));
  CHECK_FALSE(scenario_of("[training]\n[float8]\nenable_fsdp_float8_all_gather = true\n").fp8);
  CHECK(has(refusal("[training]\n[model]\nconverters = [\"float8\"]\n[float8]\n"
                    "recipe_name = \"rowwise\"\n"),
            "scaled by row"));
  CHECK(has(refusal("[training]\n[model]\nconverters = [\"mx\"]\n"), "MX formats"));
  CHECK(has(refusal("[training]\nsequence_len = 8\n"), "training.sequence_len"));
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

TEST_CASE("GPT-NeoX's keys are read with hyphens or underscores, and its degrees refused") {
  const std::string head =
      "{\n  # parallelism\n  \"pipe-parallel-size\": 1,\n  \"model_parallel_size\": ";
  const std::string rest =
      ",\n  \"num-layers\": 12, \"hidden-size\": 768, \"num-attention-heads\": 12,\n"
      "  \"seq-length\": 2048,\n  \"train_micro_batch_size_per_gpu\": 4,\n"
      "  \"optimizer\": {\"type\": \"Adam\", \"params\": {\"lr\": 0.0006}},\n"
      "  \"zero_optimization\": {\"stage\": 1, \"allgather_bucket_size\": 500000000,\n"
      "    \"reduce_bucket_size\": 50000000, \"cpu_offload\": False},\n"
      "  \"checkpoint-activations\": true,\n  \"fp16\": {\"enabled\": true},\n}\n";
  const Scenario s = scenario_of(head + "1" + rest);
  CHECK(s.strategy == Word("zero1"));
  CHECK(s.reduce_bucket_size == std::optional<std::int64_t>(50'000'000));
  CHECK(s.micro_batch == std::optional<std::int64_t>(4));
  CHECK(s.seq_len == std::optional<std::int64_t>(2048));
  CHECK(s.checkpointing == Word("full"));
  CHECK(s.precision == Word("fp16-master"));
  CHECK(has(refusal(head + "2" + rest), "2 tensor-parallel GPUs"));
}

TEST_CASE(
    "GPT-NeoX's fp16 table may be of bf16, and its precision fills the tables that are missing") {
  const std::string head =
      "pipe-parallel-size: 1\ntrain_micro_batch_size_per_gpu: 4\n"
      "zero_optimization: {stage: 1}\n";
  CHECK(scenario_of(head + "fp16: {enabled: true, type: bfloat16}\n").precision ==
        Word("bf16-master"));
  CHECK(scenario_of(head + "precision: bfloat16\n").precision == Word("bf16-master"));
  CHECK(scenario_of(head).precision == Word("fp16-master"));
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
