// Every kind of model under every strategy on 8 GPUs, in both engines.
#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "sim/forecast/forecast.hpp"
#include "sim/memory/ledger.hpp"
#include "sim/schedule/problems.hpp"

using namespace stepcast;

namespace {

Forecast run(const std::string& text) { return forecast(resolve(parse_scenario(text, "s.toml"))); }

std::string scenario(const std::string& model, StrategyKind kind, const char* rest) {
  return "model = \"" + model + "\"\ncluster = \"dgx-a100\"\nstrategy = \"" +
         std::string(to_string(kind)) + "\"\n" + rest;
}

void check_sound(const Forecast& f) {
  const std::vector<std::string> found = problems(f.schedule);
  CHECK_MESSAGE(found.empty(), (found.empty() ? std::string() : found.front()));
  for (const RoleLedger& role : memory_ledger(f.schedule)) CHECK(role.growth == 0);
  const Report& r = f.report;
  for (std::size_t i = 0; i < f.memory.size(); ++i) {  // allocated <= active <= reserved
    CHECK(f.memory[i].peak_active <= f.memory[i].peak_reserved);
    CHECK(f.memory[i].at_peak.allocated <= f.memory[i].at_peak.reserved());
  }
  for (const double value :
       {r.step_time, r.samples_per_second, r.flops_per_sample, r.tflops_per_gpu, r.mfu, r.hfu}) {
    CHECK(std::isfinite(value));
    CHECK(value > 0);
  }
  CHECK(r.mfu < 1);
  CHECK(r.split.total() == doctest::Approx(r.step_time).epsilon(1e-9));
  const std::string text = to_text(r);
  for (const char* word : {" nan", " inf", "-nan", "-inf"}) {
    CHECK(text.find(word) == std::string::npos);
  }
  if (!r.images) return;
  CHECK(text.find("token") == std::string::npos);
  CHECK(r.tokens_per_second == 0);
}

void check_strategies(const std::string& model, const char* rest) {
  for (const StrategyKind kind :
       {StrategyKind::dp, StrategyKind::ddp, StrategyKind::zero1, StrategyKind::zero2,
        StrategyKind::zero3, StrategyKind::fsdp1, StrategyKind::fsdp2, StrategyKind::hsdp}) {
    CAPTURE(model);
    CAPTURE(std::string(to_string(kind)));
    const Forecast fluid = run(scenario(model, kind, rest));
    const Forecast formula = run(scenario(model, kind, rest) + "\nengine = \"formula\"");
    check_sound(fluid);
    check_sound(formula);
    CHECK(fluid.report.step_time >= formula.report.step_time * (1 - 1e-6));
  }
}

}  // namespace

TEST_CASE("ResNet-50 runs under every strategy") {
  check_strategies("resnet-50", "micro_batch = 32");
}

TEST_CASE("ResNet-18 runs under every strategy, with recomputation and accumulation") {
  check_strategies("resnet-18",
                   "micro_batch = 8\nimage_size = 128\ncheckpointing = \"full\"\naccumulation = 2");
}

TEST_CASE("BERT runs under every strategy") {
  check_strategies("bert-large", "micro_batch = 4");
  check_strategies("bert-base", "micro_batch = 4\nseq_len = 128\ncheckpointing = \"selective\"");
}

TEST_CASE("ViT runs under every strategy") {
  check_strategies("vit-b-16", "micro_batch = 16");
  check_strategies("vit-l-16", "micro_batch = 2\nimage_size = 384\ncheckpointing = \"full\"");
}

TEST_CASE("Mixtral runs under every strategy, though it does not fit") {
  check_strategies("mixtral-8x7b", "seq_len = 2048\ncheckpointing = \"full\"");
}

TEST_CASE("E-29 and E-6: ResNet-50 under DDP sends 102,228,128 bytes in five buckets") {
  const Forecast f = run(scenario("resnet-50", StrategyKind::ddp, "micro_batch = 32"));
  Bytes reduced = 0;
  int calls = 0;
  for (const CollectiveRow& row : f.report.collectives) {
    if (row.kind != CollectiveKind::all_reduce) continue;
    reduced += row.bytes * row.calls;
    calls += row.calls;
  }
  CHECK(reduced == 102'228'128);
  CHECK(calls == 5);
}

TEST_CASE("options of text are refused for images, and the other way round") {
  const auto error_of = [](const std::string& text) {
    try {
      forecast(parse_scenario(text, "s.toml"));
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  CHECK(error_of(scenario("resnet-50", StrategyKind::ddp, "seq_len = 128")) ==
        "s.toml:4: seq_len: applies to text only, and resnet-50 reads images; accepted: "
        "image_size");
  CHECK(error_of(scenario("gpt2", StrategyKind::ddp, "image_size = 128")) ==
        "s.toml:4: image_size: applies to images only, and gpt2 reads text; accepted: seq_len");
  CHECK(error_of(scenario("resnet-50", StrategyKind::ddp, "fused_attention = false")) ==
        "s.toml:4: fused_attention: applies to attention, which resnet-50 has not");
  for (const char* model : {"gpt2", "vit-l-16"}) {
    CHECK(error_of(scenario(model, StrategyKind::ddp, "channels_last = true")) ==
          std::string("s.toml:4: channels_last: applies to the convolutions of a resnet, which ") +
              model + " has not");
  }
  CHECK(error_of(scenario("resnet-50", StrategyKind::ddp, "checkpointing = \"selective\"")) ==
        "s.toml:4: checkpointing: 'selective' is not accepted; accepted: none, full");
}
