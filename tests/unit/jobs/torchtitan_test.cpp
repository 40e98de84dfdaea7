// What single keys mean, torchtitan's; whole files are in tests/interop.
#include <algorithm>
#include <string>

#include "tests/unit/jobs/said.hpp"

using namespace stepcast;
using namespace stepcast::test;

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
