// Steps that are worked out from two shorter ones, against the same steps run whole.
#include "sim/forecast/accumulated.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "sim/forecast/evaluator.hpp"
#include "sim/forecast/forecast.hpp"

using namespace stepcast;

namespace {

Scenario scenario(int accumulation, const std::string& text) {
  return parse_scenario("model = \"gpt2\"\nseq_len = 512\ncluster = \"aws-p4d\"\naccumulation = " +
                            std::to_string(accumulation) + "\n" + text,
                        "s.toml");
}

void check_within(double a, double b, double tolerance) {
  CHECK(std::abs(a - b) <= tolerance * std::max(std::abs(a), std::abs(b)));
}

void compare(const std::string& text, double tolerance = 1e-3) {
  CAPTURE(text);
  const Scenario s = scenario(50, text);
  const Report whole = forecast(s, {.search_change = false}).report;
  const Report few = forecast(s, {.search_change = false, .whole = false}).report;
  check_within(few.step_time, whole.step_time, tolerance);
  check_within(few.split.total(), few.step_time, 1e-9);
  check_within(few.split.compute, whole.split.compute, tolerance);
  check_within(few.split.optimizer, whole.split.optimizer, tolerance);
  check_within(
      few.split.exposed_total(), whole.split.exposed_total(),
      tolerance * whole.step_time /
          std::max(1e-12, std::max(few.split.exposed_total(), whole.split.exposed_total())));
  for (std::size_t r = 0; r < few.split.by_rate.size(); ++r) {
    CHECK(std::abs(few.split.by_rate[r] - whole.split.by_rate[r]) <= tolerance * whole.step_time);
  }
  check_within(few.samples_per_second, whole.samples_per_second, tolerance);
  check_within(few.mfu, whole.mfu, tolerance);
  CHECK(few.accumulation == 50);
  CHECK(few.samples_per_step == whole.samples_per_step);
  CHECK(few.ops_per_step == whole.ops_per_step);
  REQUIRE(few.memory.size() == whole.memory.size());
  for (std::size_t i = 0; i < few.memory.size(); ++i) {
    CHECK(few.memory[i].peak == whole.memory[i].peak);
    check_within(static_cast<double>(few.memory[i].reserved->peak),
                 static_cast<double>(whole.memory[i].reserved->peak), 0.02);
  }
  REQUIRE(few.collectives.size() == whole.collectives.size());
  for (std::size_t i = 0; i < few.collectives.size(); ++i) {
    CHECK(few.collectives[i].bytes == whole.collectives[i].bytes);
    CHECK(few.collectives[i].calls == whole.collectives[i].calls);
    check_within(few.collectives[i].mean_seconds, whole.collectives[i].mean_seconds, 1e-2);
  }
}

}  // namespace

TEST_CASE("a step of 50 micro-batches from 8 and 16 is the whole step within 0.1 %: DDP, ZeRO") {
  for (const char* strategy : {"ddp", "zero1", "zero2", "zero3"}) {
    compare("nodes = 2\nstrategy = \"" + std::string(strategy) + "\"\n");
  }
  compare("nodes = 2\nstrategy = \"ddp\"\naccumulation_sync = \"every\"\n");
}

TEST_CASE("a step of 50 micro-batches from 8 and 16 is the whole step within 0.1 %: FSDP, HSDP") {
  for (const char* strategy : {"fsdp1", "fsdp2", "hsdp"}) {
    compare("nodes = 2\nstrategy = \"" + std::string(strategy) + "\"\n");
  }
  compare("nodes = 2\nstrategy = \"fsdp2\"\nreshard_after_forward = false\n");
  compare("nodes = 2\nstrategy = \"fsdp2\"\naccumulation_sync = \"every\"\n");
  compare("nodes = 2\nstrategy = \"fsdp1\"\naccumulation_sync = \"every\"\n");
}

TEST_CASE("the same by the formula, with checkpoints, and where the host binds") {
  compare("nodes = 2\nstrategy = \"fsdp2\"\nengine = \"formula\"\n");
  compare("nodes = 2\nstrategy = \"fsdp2\"\ncheckpointing = \"full\"\nmicro_batch = 8\n");
  compare("gpus = 1\nstrategy = \"ddp\"\n");  // one sequence: kernels are shorter than launches
  compare("gpus = 1\nstrategy = \"ddp\"\nmicro_batch = 16\n");
}

TEST_CASE("a loader that falls behind within the step is the least that the step takes") {
  // 2 workers: a micro-batch of 4 samples every 4 x 30 / 2 = 60 ms, more than the GPU needs.
  const std::string slow = "strategy = \"ddp\"\nmicro_batch = 4\nloader_workers = 2\n";
  compare(slow + "loader_sample_ms = 30\n");
  compare(slow + "loader_sample_ms = 5\n");
  // 8 workers read 16 batches ahead, as many as the longer of the two steps has.
  compare("strategy = \"ddp\"\nmicro_batch = 4\nloader_workers = 8\nloader_sample_ms = 120\n",
          5e-3);
}

TEST_CASE(
    "a host that binds once the optimizer's lead is used up is seen, and taken from there on") {
  // ZeRO-1 on 16 GPUs: host 6.44 ms a micro-batch, kernels 5.11; after some eight the host binds.
  const Report report =
      forecast(scenario(4000, "nodes = 2\nstrategy = \"zero1\"\n"), {.whole = false}).report;
  const auto told = [](const std::string& note) {
    return note.find("worked out from those of 24 and 32") != std::string::npos;
  };
  CHECK(std::count_if(report.notes.begin(), report.notes.end(), told) == 1);
}

TEST_CASE("an evaluator works a step out as forecast does, to the last bit") {
  const Scenario s = scenario(4096, "nodes = 2\nstrategy = \"fsdp2\"\nmicro_batch = 2\n");
  const Report report = forecast(s, {.search_change = false, .whole = false}).report;
  Evaluator evaluator;
  const Report evaluated = evaluator.report(s).report;
  CHECK(evaluated.step_time == report.step_time);
  CHECK(evaluated.mfu == report.mfu);
  CHECK(evaluated.samples_per_second == report.samples_per_second);
  CHECK(evaluated.memory.front().peak == report.memory.front().peak);
  CHECK(evaluated.memory.front().reserved->peak == report.memory.front().reserved->peak);
  CHECK(evaluator.memory_peak(s) == report.memory.front().peak);
}

TEST_CASE("32,000 micro-batches cost what 24 do, and the report says how they are known") {
  const Report report =
      forecast(scenario(32000, "nodes = 2\nstrategy = \"ddp\"\n"), {.whole = false}).report;
  CHECK(report.samples_per_step == 32000.0 * 16);
  const auto told = [](const std::string& note) {
    return note ==
           "the step of 32,000 micro-batches is worked out from those of 8 and 16: in "
           "between they repeat";
  };
  CHECK(std::count_if(report.notes.begin(), report.notes.end(), told) == 1);
}

TEST_CASE("up to 32 micro-batches a step is run whole") {
  const Scenario s = scenario(32, "strategy = \"ddp\"\n");
  const Forecast f = forecast(s, {.whole = false});
  CHECK(f.report.step_time == forecast(s).report.step_time);
  CHECK(f.schedule.roles.front().steps.back().ops.size() ==
        static_cast<std::size_t>(f.report.ops_per_step));
}

// Its figures are those of the whole step: 50 micro-batches of 26.9 ms, not 16 of them.
TEST_CASE("a note on collectives speaks of all micro-batches") {
  const Scenario s = scenario(50, "nodes = 4\nnetwork = \"efa-busy\"\nstrategy = \"fsdp2\"\n");
  const auto said = [&](bool whole) {
    std::string text;
    for (const std::string& note :
         forecast(s, {.search_change = false, .whole = whole}).report.notes) {
      if (note.starts_with("corrections for efa-busy")) text += note;
    }
    return text;
  };
  CHECK(said(true).find("its collectives take 1.344 s alone") != std::string::npos);
  CHECK(said(false) == said(true));
}
