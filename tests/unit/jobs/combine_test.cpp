#include "sim/jobs/combine.hpp"

#include <string>

#include "sim/jobs/scenario_text.hpp"
#include "tests/unit/jobs/said.hpp"

using namespace stepcast;
using namespace stepcast::test;

namespace {

using Count = std::optional<std::int64_t>;

jobs::Combined together(const std::string& a, const std::string& b, const Scenario& flags = {}) {
  return jobs::combine({jobs::parse_job(a, "a"), jobs::parse_job(b, "b")}, flags, {.ask = true});
}

std::string message(const std::string& text, const Scenario& flags) {
  try {
    jobs::combine({jobs::parse_job(text, "job")}, flags, {});
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

const std::string auto_sizes =
    "{\"train_micro_batch_size_per_gpu\": \"auto\",\n\"bf16\": {\"enabled\": \"auto\"},\n"
    "\"zero_optimization\": {\"stage\": 3, \"reduce_bucket_size\": \"auto\",\n"
    "\"stage3_prefetch_bucket_size\": \"auto\", \"stage3_param_persistence_threshold\": \"auto\"}}";

}  // namespace

TEST_CASE("a global batch is divided among GPUs, and the missing factor is worked out") {
  const Scenario eight = flags_of("gpus = 8\n");
  // 64 = 4 x accumulation x 8
  CHECK(scenario_of("{\"train_batch_size\": 64, \"train_micro_batch_size_per_gpu\": 4}", eight)
            .accumulation == Count(2));
  // 64 = micro x 2 x 8
  CHECK(scenario_of("{\"train_batch_size\": 64, \"gradient_accumulation_steps\": 2}", eight)
            .micro_batch == Count(4));
  // 64 alone: one micro-batch of 8
  const Scenario alone = scenario_of("{\"train_batch_size\": 64}", eight);
  CHECK(alone.micro_batch == Count(8));
  CHECK(alone.accumulation == Count(1));
}

TEST_CASE("batch sizes that contradict each other are refused with all of them") {
  const Scenario eight = flags_of("gpus = 8\n");
  const std::string three =
      "{\"train_batch_size\": 64,\n\"train_micro_batch_size_per_gpu\": 4,\n"
      "\"gradient_accumulation_steps\": 4}";
  CHECK(has(refusal(three, eight),
            "job:1: train_batch_size: train_batch_size is 64, but 4 a GPU x 4 "
            "of accumulation x 8 GPUs makes 128"));
  // 64 is no multiple of 4 x 24.
  CHECK(has(refusal("{\"train_batch_size\": 64, \"train_micro_batch_size_per_gpu\": 4}",
                    flags_of("gpus = 24\n")),
            "is 64"));
  // Both said by flags: a new batch.
  CHECK(scenario_of(three, flags_of("gpus = 8\nmicro_batch = 1\naccumulation = 1\n")).micro_batch ==
        Count(1));
}

TEST_CASE("auto is Hugging Face's rule over the model's hidden size") {
  // Llama-3-8B: h = 4096, h*h = 16,777,216, 0.9 of it 15,099,494.4, 10 h = 40,960.
  const Scenario s = scenario_of(
      auto_sizes,
      flags_of("model = \"llama-3-8b\"\nmicro_batch = 1\nprecision = \"bf16-master\"\n"));
  CHECK(s.reduce_bucket_size == Count(16'777'216));
  CHECK(s.stage3_prefetch_bucket_size == Count(15'099'494));
  CHECK(s.stage3_param_persistence_threshold == Count(40'960));
}

TEST_CASE("what auto leaves to the Trainer is asked for, all of it in one line") {
  const std::string asked = message(auto_sizes, flags_of("model = \"llama-3-8b\"\n"));
  CHECK(has(asked, "job:1: train_micro_batch_size_per_gpu: \"auto\" is the Trainer's"));
  CHECK(has(asked, "--micro-batch"));
  CHECK(has(asked, "; job:2: bf16.enabled: "));
  CHECK(message(auto_sizes, flags_of("model = \"llama-3-8b\"\nmicro_batch = 1\n"
                                     "precision = \"bf16-master\"\n"))
            .empty());
  // The Trainer's arguments beside it answer both.
  const Scenario s =
      together(auto_sizes, "output_dir: x\nper_device_train_batch_size: 2\nbf16: true\n").scenario;
  CHECK(s.micro_batch == Count(2));
  CHECK(s.precision == Word("bf16-master"));
  CHECK(s.strategy == Word("zero3"));
}

TEST_CASE("two files that say different things of one key are refused, both named") {
  const std::string stage_2 = "{\"zero_optimization\": {\"stage\": 2}}";
  const std::string accelerate = "distributed_type: DEEPSPEED\ndeepspeed_config: {zero_stage: 3}\n";
  try {
    together(stage_2, accelerate);
    CHECK(false);
  } catch (const InputError& error) {
    const std::string text = error.what();
    CHECK(has(text, "b:2: deepspeed_config.zero_stage"));
    CHECK(has(text, "zero_optimization.stage = 2, a:1"));
  }
}

TEST_CASE("a file's strategy beats what a framework would do without one") {
  const Scenario s =
      together("distributed_type: FSDP\nmixed_precision: bf16\nfsdp_config: {fsdp_version: 2}\n",
               "output_dir: x\nddp_find_unused_parameters: false\nper_device_train_batch_size: 3\n")
          .scenario;
  CHECK(s.strategy == Word("fsdp2"));
  CHECK_FALSE(s.find_unused_parameters.has_value());
  CHECK(s.micro_batch == Count(3));
  CHECK(s.precision == Word("bf16-mixed-reduce-bf16"));
}

TEST_CASE("flags win, and GPUs that they count replace the files' machines") {
  const std::string two = "distributed_type: MULTI_GPU\nnum_processes: 16\nnum_machines: 2\n";
  const Scenario s = scenario_of(two, flags_of("gpus = 64\n"));
  CHECK(s.gpus == Count(64));
  CHECK_FALSE(s.gpus_per_node.has_value());
  CHECK(scenario_of(two).gpus_per_node == Count(8));
  CHECK(scenario_of("distributed_type: MULTI_GPU\nmixed_precision: bf16\n",
                    flags_of("precision = \"fp32\"\n"))
            .precision == Word("fp32"));
}

TEST_CASE("a model of the catalog is known by its sizes") {
  const std::string mpt =
      "max_duration: 1ba\nglobal_train_batch_size: 8\n"
      "device_train_microbatch_size: 1\nmodel: {name: mpt_causal_lm, d_model: "
      "4096, n_layers: 32, n_heads: 32, expansion_ratio: 4, vocab_size: 50368}\n";
  CHECK(scenario_of(mpt).model == Word("mpt-7b"));
  std::string other = mpt;
  other.replace(other.find("n_layers: 32"), 12, "n_layers: 31");
  CHECK(has(message(other, {}), "no model of the catalog has these sizes"));
}

TEST_CASE("the imported scenario says of every value where it is from") {
  const std::string text = jobs::scenario_text(combined(
      "{\n\"gradient_accumulation_steps\": \"auto\",\n\"zero_optimization\": {\"stage\": 2},\n"
      "\"steps_per_print\": 10}",
      flags_of("micro_batch = 2\n")));
  CHECK(has(text, "# job is read as DeepSpeed's configuration (JSON)"));
  CHECK(has(text, "strategy = \"zero2\""));
  CHECK(has(text, "# job:3: zero_optimization.stage = 2"));
  CHECK(has(text, "# not in the file: the Trainer's default for \"auto\""));
  CHECK(has(text, "# said: --flags:1"));
  CHECK(has(text, "# model ="));
  CHECK(has(text, "steps_per_print"));
}

TEST_CASE("no text of a file gets out of its comment or its quotes") {
  const jobs::Combined c = combined(
      "model_name_or_path: \"a\\nmodel = 'x'\"\noutput_dir: x\nper_device_train_batch_size: 1\n");
  const Scenario again = parse_scenario(jobs::scenario_text(c), "again");
  CHECK_FALSE(again.model.has_value());
}

TEST_CASE("a value that is cut within a character still makes a scenario that can be read") {
  std::string name = "aa";
  for (int i = 0; i < 60; ++i) name += "\xC3\xA9";
  const jobs::Combined c =
      combined("model_name_or_path: " + name + "\noutput_dir: x\noptim: a" + name + "\n", {}, true);
  CHECK(parse_scenario(jobs::scenario_text(c), "again").micro_batch == Count(8));
}

TEST_CASE(
    "what the files leave out, and a cluster that they do not fit, is said with their names") {
  const auto refused = [](const std::string& processes, const Scenario& flags) {
    try {
      jobs::combine(
          {jobs::parse_job("distributed_type: MULTI_GPU\nnum_machines: 1\n" + processes,
                           "acc.yaml"),
           jobs::parse_job("output_dir: x\nper_device_train_batch_size: 1\n", "args.yaml")},
          flags, {});
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("not refused");
  };
  CHECK(has(refused("", {}), "acc.yaml, args.yaml: names no model; accepted: --model with a name"));
  CHECK(has(message("distributed_type: MULTI_GPU\nmixed_precision: bf16\n", {}),
            "job: names no model; accepted: --model"));
  // 8 processes of the file on a machine of two GPUs.
  const Scenario flags = flags_of("model = \"gpt2\"\ncluster = \"rtx-3090-2x\"\n");
  const std::string small = refused("num_processes: 8\n", flags);
  CAPTURE(small);
  CHECK(small.find("acc.yaml:3: num_processes: rtx-3090-2x has no NIC") == 0);
  CHECK(has(small, "accepted: "));
}
