// Emitted and read back: whatever the format can say means the same again, and what it cannot say
// is named.
#include "sim/jobs/emit.hpp"

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "sim/forecast/resolve.hpp"
#include "sim/forecast/scenario_keys.hpp"
#include "sim/schedule/text.hpp"
#include "sim/strategies/strategy.hpp"
#include "tests/unit/jobs/said.hpp"

using namespace stepcast;
using namespace stepcast::test;

namespace {

struct Draw {
  std::mt19937 engine{20};

  bool coin() { return engine() % 2 == 0; }
  template <typename T>
  T one_of(const std::vector<T>& values) {
    return values[engine() % values.size()];
  }
  template <typename T>
  void maybe(std::optional<T>& field, const std::vector<T>& values) {
    if (coin()) field = one_of(values);
  }
};

// A scenario of the strategy with some of its knobs, as a user would write it.
Scenario drawn(Draw& draw, const std::string& strategy, const std::string& format) {
  Scenario s;
  s.strategy = strategy;
  s.gpus = 16;
  s.gpus_per_node = 8;
  s.micro_batch = draw.one_of<std::int64_t>({1, 2, 6});
  draw.maybe<std::int64_t>(s.accumulation, {1, 4});
  draw.maybe<std::int64_t>(s.seq_len, {2048, 8192});
  draw.maybe<std::string>(s.checkpointing, {"none", "full", "selective"});
  draw.maybe<bool>(s.clip_grad_norm, {true, false});
  draw.maybe<std::string>(s.optimizer, {"adamw-fused", "adamw-foreach", "adamw-unfused", "sgd"});
  draw.maybe<std::string>(s.model, {"llama-3-8b", "gpt2"});
  std::vector<std::string> recipes = precision_recipes_of(parse_strategy(strategy));
  draw.maybe<std::string>(s.precision, recipes);
  if (strategy == "ddp") {
    draw.maybe<double>(s.bucket_cap_mb, {25, 100, 1e6});
    draw.maybe<bool>(s.find_unused_parameters, {true, false});
  }
  if (strategy.starts_with("zero")) {
    draw.maybe<std::int64_t>(s.reduce_bucket_size, {7'000'000, 500'000'000});
    draw.maybe<bool>(s.overlap_comm, {true, false});
  }
  if (strategy == "zero1" || strategy == "zero2") {
    draw.maybe<bool>(s.contiguous_gradients, {true, false});
    draw.maybe<bool>(s.reduce_scatter, {true, false});
  }
  if (strategy == "zero3") {
    draw.maybe<std::int64_t>(s.stage3_prefetch_bucket_size, {0, 15'099'494});
    draw.maybe<std::int64_t>(s.stage3_max_reuse_distance, {0, 1'000'000'000});
    draw.maybe<std::int64_t>(s.zero_hpz_partition_size, {8});
    draw.maybe<bool>(s.leaf_layers, {true});
  }
  if (strategy == "fsdp1") {
    draw.maybe<std::string>(s.sharding_strategy, {"FULL_SHARD", "SHARD_GRAD_OP", "HYBRID_SHARD",
                                                  "_HYBRID_SHARD_ZERO2", "NO_SHARD"});
    draw.maybe<std::string>(s.backward_prefetch, {"pre", "post", "none"});
    draw.maybe<bool>(s.forward_prefetch, {true, false});
    draw.maybe<bool>(s.limit_all_gathers, {true, false});
  }
  if (strategy == "fsdp2" || strategy == "hsdp") {
    draw.maybe<YesNoOrCount>(s.reshard_after_forward, {{true, 0}, {false, 0}});
    draw.maybe<std::string>(s.wrap, {"block", "torchtitan"});
    draw.maybe<bool>(s.keep_last_block, {true, false});
  }
  if (strategy == "hsdp") s.shard_group = draw.one_of<std::int64_t>({4, 8});
  (void)format;
  return s;
}

bool among(const std::vector<std::string>& left_out, const std::string& key) {
  return std::any_of(left_out.begin(), left_out.end(),
                     [&](const std::string& text) { return text.starts_with(key + " = "); });
}

// Every key of the model and of the strategy that the scenario says is either read back as it is or
// among those left out.
void check_round_trip(const Scenario& s, const std::string& format) {
  const jobs::Emitted out = jobs::emitted(s, format);
  CAPTURE(out.text);
  const jobs::Job job = jobs::parse_job(out.text, "emitted");
  CHECK(job.unknown.empty());
  CHECK(job.unsupported.empty());
  Scenario world;
  world.gpus = s.gpus;
  world.said["gpus"] = {"--gpus", 0, ""};
  const jobs::Combined again = jobs::combine({job}, world, {.ask = true});
  std::vector<const void*> read;
  visit_scenario(again.scenario, [&](const KeyInfo&, const auto& f) { read.push_back(&f); });
  std::size_t i = 0;
  visit_scenario(s, [&](const KeyInfo& key, const auto& field) {
    using Field = std::remove_reference_t<decltype(field)>;
    const Field& there = *static_cast<const Field*>(read[i++]);
    const std::string group = key.group;
    if (!field || (group != "Model" && group != "Strategy") || among(out.left_out, key.name))
      return;
    CAPTURE(std::string(key.name));
    REQUIRE(there.has_value());
    CHECK(*there == *field);
  });
}

}  // namespace

TEST_CASE("a scenario that is emitted and read back says the same of all that the format can say") {
  Draw draw;
  const std::pair<const char*, std::vector<const char*>> formats[] = {
      {"deepspeed", {"zero1", "zero2", "zero3", "ddp"}},
      {"accelerate", {"ddp", "fsdp1", "fsdp2", "hsdp", "zero1", "zero2", "zero3"}},
      {"torchtitan", {"fsdp2", "hsdp", "ddp"}}};
  for (const auto& format : formats) {
    CAPTURE(std::string(format.first));
    for (const char* strategy : format.second) {
      for (int i = 0; i < 60; ++i) {
        check_round_trip(drawn(draw, strategy, format.first), format.first);
      }
    }
  }
}

TEST_CASE("emitted defaults, with what is said to be left out, make the same step when read back") {
  const std::pair<const char*, std::vector<const char*>> formats[] = {
      {"deepspeed", {"zero1", "zero2", "zero3", "ddp"}},
      {"accelerate", {"ddp", "fsdp1", "fsdp2", "hsdp", "zero1", "zero2", "zero3"}},
      {"torchtitan", {"fsdp2", "hsdp", "ddp"}}};
  for (const auto& each : formats) {
    const std::string format = each.first;
    for (const char* strategy : each.second) {
      for (const char* cluster : {"dgx-h100", "aws-p3dn"}) {  // bf16 and fp16 by default
        for (const char* model : {"gpt2", "llama-3-8b"}) {
          CAPTURE(format);
          CAPTURE(std::string(strategy));
          CAPTURE(std::string(cluster));
          CAPTURE(std::string(model));
          const std::string where = std::string("cluster = \"") + cluster + "\"\nnodes = 2\n";
          const Scenario s = parse_scenario(
              where + "model = \"" + model + "\"\nstrategy = \"" + strategy + "\"\n" +
                  (std::string(strategy) == "hsdp" ? "shard_group = 8\n" : ""),
              "s");
          const jobs::Emitted out = jobs::emitted(s, format);
          CAPTURE(out.text);
          Scenario flags = parse_scenario(where, "--flags");
          for (const std::string& left : out.left_out) {
            if (left.starts_with("bucket_cap_mb = 25,")) continue;
            const std::size_t equals = left.find(" = ");
            scenario_key(left.substr(0, equals)).set(flags, left.substr(equals + 3), {"s", 0, ""});
          }
          Scenario again =
              jobs::combine({jobs::parse_job(out.text, "emitted")}, flags, {}).scenario;
          if (among(out.left_out, "bucket_cap_mb")) again.bucket_cap_mb.reset();
          const Resolved there = resolve(again);
          const Resolved here = resolve(s);
          CHECK(there.step.precision.name == here.step.precision.name);
          CHECK(there.step.workload.seq_len == here.step.workload.seq_len);
          const std::string step = to_text(build_schedule(here.step));
          const bool same = to_text(build_schedule(there.step)) == step;
          CHECK(same);
        }
      }
    }
  }
}

TEST_CASE("defaults that a format changes are named as what was said is") {
  const auto left_out = [](const std::string& text, const char* format) {
    return jobs::emitted(parse_scenario(text, "s"), format).left_out;
  };
  const std::vector<std::string> reduced{"precision = bf16-mixed"};
  for (const char* strategy : {"fsdp1", "fsdp2"}) {
    const std::string text = std::string("strategy = \"") + strategy + "\"\n";
    CHECK(left_out(text, "accelerate") == reduced);
    CHECK(left_out(text + "precision = \"bf16-mixed\"\n", "accelerate") == reduced);
  }
  CHECK(left_out("strategy = \"ddp\"\n", "accelerate").empty());
  CHECK(left_out("strategy = \"zero2\"\n", "deepspeed").empty());
  CHECK(left_out("strategy = \"ddp\"\n", "deepspeed") ==
        std::vector<std::string>{"precision = amp-bf16",
                                 "bucket_cap_mb = 25, 1 for the first bucket"});
  CHECK(left_out("strategy = \"ddp\"\ngpus = 8\n", "torchtitan") ==
        std::vector<std::string>{"bucket_cap_mb = 25, 1 for the first bucket"});
  CHECK(left_out("strategy = \"fsdp2\"\n", "torchtitan") ==
        std::vector<std::string>{"wrap = block"});
  // Of the recipes that DeepSpeed has not got, the dtype at least.
  const Scenario amp = parse_scenario("strategy = \"ddp\"\nprecision = \"amp-fp16\"\n", "s");
  CHECK(has(jobs::emit(amp, "deepspeed"), "\"fp16\": {\n    \"enabled\": true"));
}

TEST_CASE("torchtitan's sequence length is written, the model's own too: its default is 2048") {
  const auto text = [](const std::string& more) {
    return jobs::emit(parse_scenario("strategy = \"fsdp2\"\n" + more, "s"), "torchtitan");
  };
  CHECK(has(text("model = \"llama-3-8b\"\n"), "\nseq_len = 8192\n"));
  CHECK(has(text("model = \"gpt2\"\n"), "\nseq_len = 1024\n"));
  CHECK(has(text("model = \"gpt2\"\nseq_len = 512\n"), "\nseq_len = 512\n"));
  CHECK(!has(text(""), "seq_len"));
}

TEST_CASE("what a format cannot say is named") {
  const Scenario s = parse_scenario(
      "strategy = \"zero2\"\nmicro_batch = 4\nseq_len = 4096\nreduce_bucket_size = 50_000_000\n"
      "cluster = \"dgx-h100\"\nnodes = 2\n",
      "s");
  CHECK(jobs::emitted(s, "deepspeed").left_out == std::vector<std::string>{"seq_len = 4096"});
  CHECK(jobs::emitted(s, "accelerate").left_out ==
        std::vector<std::string>{"seq_len = 4096", "micro_batch = 4",
                                 "reduce_bucket_size = 50000000"});
  CHECK(has(jobs::emit(s, "accelerate"), "num_processes: 16\nnum_machines: 2\n"));
}

TEST_CASE("DeepSpeed's file of a scenario has its figures") {
  const Scenario s = parse_scenario(
      "strategy = \"zero3\"\nmicro_batch = 4\naccumulation = 2\nprecision = \"bf16-master\"\n"
      "stage3_max_reuse_distance = 0\nclip_grad_norm = true\n",
      "s");
  CHECK(jobs::emit(s, "deepspeed") ==
        "{\n  \"train_micro_batch_size_per_gpu\": 4,\n  \"gradient_accumulation_steps\": 2,\n"
        "  \"gradient_clipping\": 1.0,\n  \"bf16\": {\n    \"enabled\": true\n  },\n"
        "  \"zero_optimization\": {\n    \"stage\": 3,\n    \"stage3_max_reuse_distance\": 0\n  }\n"
        "}\n");
}

TEST_CASE("formats and strategies that do not go together are refused") {
  const auto refused = [](const char* strategy, const char* format) -> std::string {
    Scenario s;
    s.strategy = strategy;
    try {
      jobs::emit(s, format);
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  };
  CHECK(has(refused("fsdp2", "deepspeed"), "deepspeed does not run fsdp2"));
  CHECK(has(refused("zero3", "torchtitan"), "accepted: fsdp2, hsdp, ddp"));
  CHECK(has(refused("fsdp2", "deepsped"), "did you mean 'deepspeed'"));
  CHECK(has(refused("hsdp", "torchtitan"), "shard_group"));
}
