// What single keys mean, DeepSpeed's and GPT-NeoX's; whole files are in tests/interop.
#include <string>

#include "tests/unit/jobs/said.hpp"

using namespace stepcast;
using namespace stepcast::test;

namespace {

std::string zero(const std::string& keys) { return "{\"zero_optimization\": {" + keys + "}}"; }

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

TEST_CASE("torch's own Adam under DeepSpeed is fused where its arguments say so") {
  const auto optimizer = [](const std::string& params) {
    return scenario_of(
               "{\"zero_optimization\": {\"stage\": 2}, \"optimizer\": {\"type\": "
               "\"AdamW\", \"params\": {\"torch_adam\": true" +
               params + "}}}")
        .optimizer;
  };
  CHECK(optimizer("") == Word("adamw-foreach"));
  CHECK(optimizer(", \"fused\": true") == Word("adamw-fused"));
}

TEST_CASE("compression that is switched off some levels deep says nothing") {
  const auto text = [](const std::string& on) {
    return "{\"zero_optimization\": {\"stage\": 2}, \"compression_training\": "
           "{\"weight_quantization\": {\"shared_parameters\": {\"enabled\": " +
           on + "}}, \"layer_reduction\": {\"enabled\": false}}}";
  };
  CHECK(scenario_of(text("false")).strategy == Word("zero2"));
  CHECK(has(refusal(text("true")), "compression_training: training with compression"));
}
