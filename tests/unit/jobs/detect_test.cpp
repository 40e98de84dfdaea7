#include "sim/jobs/detect.hpp"

#include <string>

#include "tests/unit/jobs/said.hpp"

using namespace stepcast;
using namespace stepcast::jobs;

TEST_CASE("a file's kind is told by what stands in it") {
  const struct {
    const char* text;
    Kind kind;
  } rows[] = {
      {"{\"zero_optimization\": {\"stage\": 2}}", Kind::deepspeed},
      {"{\"train_batch_size\": 8}", Kind::deepspeed},
      {"distributed_type: FSDP\n", Kind::accelerate},
      {"{\"distributed_type\": \"MULTI_GPU\"}", Kind::accelerate},
      {"per_device_train_batch_size: 4\ngradient_accumulation_steps: 2\n", Kind::trainer},
      {"{\"fsdp\": \"full_shard auto_wrap\", \"fsdp_config\": {}}", Kind::trainer},
      {"{\"transformer_layer_cls_to_wrap\": \"LlamaDecoderLayer\"}", Kind::trainer},
      {"model_name_or_path: x\nfinetuning_type: full\n", Kind::llama_factory},
      {"base_model: x\nmicro_batch_size: 1\n", Kind::axolotl},
      {"[training]\nseq_len = 8\n", Kind::torchtitan},
      {"device_train_microbatch_size: 4\nfsdp_config: {sharding_strategy: FULL_SHARD}\n",
       Kind::llm_foundry},
      {"parameters:\n  global_train_batch_size: 8\n", Kind::llm_foundry},
      {"trainer:\n  devices: 8\n", Kind::lightning},
      {"devices: 4\nprecision: bf16-true\ntrain: {micro_batch_size: 1}\n", Kind::litgpt},
      {"parallelism: {dp: 8, tp: 1, pp: 1}\ntokens: {micro_batch_size: 1}\n", Kind::nanotron},
      {"{\"pipe-parallel-size\": 1, \"num-layers\": 12}", Kind::gpt_neox},
      {"{\"model_type\": \"llama\", \"hidden_size\": 64, \"vocab_size\": 10}", Kind::model_config},
  };
  for (const auto& row : rows) {
    CAPTURE(row.text);
    CHECK(std::string(to_string(parse_job(row.text, "f").kind)) == to_string(row.kind));
  }
}

TEST_CASE("files of no known kind and stepcast's own scenarios are refused with what to do") {
  CHECK(test::has(test::refusal("hello: world\n"),
                  "is YAML of no known kind; accepted: YAML of accelerate"));
  CHECK(test::has(test::refusal("{\"hello\": 1}"),
                  "is JSON of no known kind; accepted: JSON of DeepSpeed"));
  CHECK(test::has(test::refusal("[hello]\nworld = 1\n"),
                  "is TOML of no known kind; accepted: TOML of torchtitan"));
  CHECK(test::has(test::refusal("- a\n- b\n"), "of no known kind"));
  CHECK(test::has(test::refusal("just words"), "of no known kind"));
  CHECK(test::has(test::refusal("model = \"gpt2\"\ncluster = \"dgx-h100\"\n"), "without --from"));
}

TEST_CASE("files of programs that are not read are told by their own keys") {
  const struct {
    const char* text;
    const char* program;
  } rows[] = {
      {"output_dir: /tmp/x\nbatch_size: 2\nmodel: {_component_: torchtune.models.llama3}\n",
       "torchtune"},
      {"trainer: {nnodes: 1, n_gpus_per_node: 8}\ndata: {train_batch_size: 256}\n", "verl"},
      {"trainer: {train_batch_size: 512, num_train_steps: 9}\nmodel: {type: gpt2}\n", "Levanter"},
      {"num-layers: 24\nhidden-size: 1024\ntensor-model-parallel-size: 1\n", "Megatron-LM"},
      {"per_device_batch_size: 12.0\nici_fsdp_parallelism: -1\n", "MaxText"},
      {"distributed_training: {distributed_world_size: 8}\n", "fairseq"}};
  for (const auto& row : rows) {
    CAPTURE(row.text);
    CHECK(test::has(test::refusal(row.text), std::string("is of ") + row.program +
                                                 ", whose files are not read; give the strategy"));
  }
  CHECK(test::has(test::refusal(rows[1].text), "job:1: trainer.n_gpus_per_node: is of verl"));
  // A model's sizes in YAML are no config.json.
  CHECK(test::has(test::refusal("hidden_size: 64\nvocab_size: 10\n"), "of no known kind"));
}

TEST_CASE("DeepSpeed's JSON may have comments and commas at the end, others' may not") {
  const Scenario s = test::scenario_of(
      "{\n  // of \"two\"\n  \"zero_optimization\": {\n    \"stage\": 2, /* not 3 */\n"
      "    \"reduce_bucket_size\": 5e8, # elements\n  },\n  \"wandb\": {\"team\": "
      "\"a//b#c,]\"}\n}");
  CHECK(s.strategy == test::Word("zero2"));
  CHECK(s.reduce_bucket_size == std::optional<std::int64_t>(500'000'000));
  const Scenario comma = test::scenario_of("{\"zero_optimization\": {\"stage\": 1,},}");
  CHECK(comma.strategy == test::Word("zero1"));
  // A key that is unknown keeps its line.
  CHECK(test::has(test::refusal("{// a\n/* b\n*/ \"zero_optimization\": {\"stage\": 5}}"),
                  "job:3: zero_optimization.stage"));
  CHECK(test::has(test::refusal("{\"distributed_type\": \"NO\", // a\n}"), "not valid JSON"));
  CHECK(test::has(test::refusal("{\"zero_optimization\": // a\n}"), "not valid JSON"));
  CHECK(test::has(test::refusal("{\"zero_optimization\": /* a"), "not valid JSON"));
}

TEST_CASE("a file that says nothing is told what its ending may hold") {
  const auto refusal = [](const std::string& text, const std::string& file) {
    try {
      parse_job(text, file);
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("not refused");
  };
  for (const char* nothing : {"", "\n\n", "# a remark\n", "\xEF\xBB\xBF"}) {
    CAPTURE(nothing);
    CHECK(refusal(nothing, "job.toml") == "job.toml: says nothing; accepted: TOML of torchtitan");
    CHECK(refusal(nothing, "ds.json").find("ds.json: says nothing; accepted: JSON of DeepSpeed") ==
          0);
    CHECK(refusal(nothing, "a.yaml").find("a.yaml: says nothing; accepted: YAML of accelerate") ==
          0);
  }
  CHECK(refusal("{}", "ds.json").find("ds.json: says nothing; accepted: JSON of DeepSpeed") == 0);
  CHECK(refusal("---\n", "a.yml").find("a.yml: says nothing; accepted: YAML of") == 0);
}

TEST_CASE("models are found by the names of the hub and of torchtitan") {
  CHECK(catalog_model("meta-llama/Llama-2-7b-hf") == "llama-2-7b");
  CHECK(catalog_model("NousResearch/Llama-2-7b-chat-hf") == "llama-2-7b");
  CHECK(catalog_model("meta-llama/Meta-Llama-3.1-8B-Instruct") == "llama-3-8b");
  CHECK(catalog_model("llama3-8B") == "llama-3-8b");
  CHECK(catalog_model("mistralai/Mixtral-8x7B-v0.1") == "mixtral-8x7b");
  CHECK(catalog_model("openai-community/gpt2") == "gpt2");
  CHECK(catalog_model("somebody/llama-2-7b-but-wider") == "");
  CHECK(catalog_model("") == "");
}
