// What a step loses to its slowest rank.

#include "sim/forecast/stragglers.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "sim/engines/jitter.hpp"
#include "sim/forecast/forecast.hpp"
#include "tests/unit/report/small_step.hpp"

using namespace stepcast;

namespace {

// GPT-2 under DDP, by the profile pytorch-eager with this deviation between ranks.
Report with_jitter(double deviation, int gpus) {
  // Tests run side by side: each its own file.
  const std::string file = "jitter-" + std::to_string(getpid()) + ".toml";
  std::ofstream(file) << "name = \"jitter\"\nbased_on = \"pytorch-eager\"\nsource = \"test\"\n"
                      << "rank_jitter = " << deviation << "\n";
  const Report report =
      forecast(parse_scenario("model = \"gpt2\"\nstrategy = \"ddp\"\ncluster = \"dgx-h100\"\n"
                              "engine = \"formula\"\nmicro_batch = 16\nprofile = \"./" +
                                  file + "\"\ngpus = " + std::to_string(gpus) + "\n",
                              "s.toml"))
          .report;
  std::filesystem::remove(file);
  return report;
}

Seconds slowest_rank(const Report& report) { return report.split.exposed_by("slowest_rank"); }

}  // namespace

TEST_CASE("a step waits for the expected slowest of its ranks, deviation by deviation") {
  const Report alike = with_jitter(0, 8);
  const Report apart = with_jitter(0.02, 8);
  CHECK(slowest_rank(alike) == 0);
  // All of the kernels up to the last bucket: 1.4236 deviations of 2 % of it. Behind the last
  // meeting only the optimizer is left, whose part the next step's first meeting counts.
  const Seconds kernels = alike.split.compute + alike.split.copies + alike.split.optimizer;
  const Seconds lost = slowest_rank(apart);
  CHECK(lost == doctest::Approx(largest_of_normals(8).mean * 0.02 * kernels).epsilon(0.03));
  CHECK(apart.step_time == doctest::Approx(alike.step_time + lost));
  CHECK(apart.split.total() == doctest::Approx(apart.step_time));
  CHECK(apart.tokens_per_second * apart.step_time ==
        doctest::Approx(alike.tokens_per_second * alike.step_time));
}

TEST_CASE("more ranks lose more, one loses nothing") {
  CHECK(slowest_rank(with_jitter(0.02, 1)) == 0);
  const double growth = slowest_rank(with_jitter(0.02, 64)) / slowest_rank(with_jitter(0.02, 8));
  // 2.3435 / 1.4236, of kernels that are the same.
  CHECK(growth == doctest::Approx(1.646).epsilon(0.03));
}

TEST_CASE("the wait is drawn before the last collective of backward, and all else comes later") {
  // AG0 0-2, AG1 2-6, B 9-15, RS 15-17, optimizer 17-18; the slowest of 8 comes half a second late.
  const Schedule schedule = small_step();
  Timeline timeline = run_once(schedule, small_step_costs(schedule));
  show_straggling(schedule, 0.5, timeline);
  CHECK(timeline.period() == doctest::Approx(18.5));
  for (const Span& span : timeline.spans) {
    const Op& op = op_of(schedule, timeline, span);
    const bool scatter = op.kind == OpKind::collective && op.phase == Phase::backward;
    CHECK(span.peer_wait == doctest::Approx(scatter ? 0.5 : 0));
    if (scatter) {
      CHECK(span.start == doctest::Approx(15.5));
      CHECK(span.end == doctest::Approx(17.5));
    } else if (op.phase == Phase::backward) {
      CHECK(span.end == doctest::Approx(15));
    } else if (op.phase == Phase::optimizer) {
      CHECK(span.start == doctest::Approx(17.5));
      CHECK(span.end == doctest::Approx(18.5));
    }
  }
}

TEST_CASE("each step waits once, and the next one begins so much later") {
  const Schedule schedule = small_step();
  const CostTable costs = small_step_costs(schedule);
  RunOptions two;
  two.programs = {0, 0};
  const auto engine = make_formula_engine();
  const Timeline before = engine->run(schedule, costs, two);
  Timeline after = before;
  show_straggling(schedule, 0.5, after);
  REQUIRE(after.steps.size() == 2);
  CHECK(after.steps[0].end == doctest::Approx(before.steps[0].end + 0.5));
  CHECK(after.steps[1].begin == doctest::Approx(before.steps[1].begin + 0.5));
  CHECK(after.steps[1].end == doctest::Approx(before.steps[1].end + 1));
  CHECK(after.period() == doctest::Approx(before.period() + 0.5));
  for (std::size_t i = 0; i < after.spans.size(); ++i) {
    CHECK(after.spans[i].end - after.spans[i].start ==
          doctest::Approx(before.spans[i].end - before.spans[i].start));
  }
}

TEST_CASE("a forecast's timeline is as long as its step, the slowest rank in it") {
  for (const char* strategy : {"ddp", "zero1", "zero3", "fsdp1", "fsdp2", "hsdp"}) {
    for (const char* engine : {"formula", "fluid"}) {
      CAPTURE(strategy);
      const Forecast f = forecast(parse_scenario(
          std::string("model = \"gpt2\"\ncluster = \"dgx-a100\"\nnodes = 2\nengine = \"") + engine +
              "\"\nmicro_batch = 16\nstrategy = \"" + strategy + "\"\n",
          "s.toml"));
      CHECK(f.straggling > 0);
      CHECK(f.straggling == slowest_rank(f.report));
      CHECK(f.timeline.period() == doctest::Approx(f.report.step_time).epsilon(1e-12));
    }
  }
}

TEST_CASE("ranks that replay are alike, those of a GPU's calibration are not") {
  const std::string file = "alike-" + std::to_string(getpid()) + ".toml";
  const auto lost = [&](const std::string& executor) {
    std::ofstream(file) << "schema = \"stepcast.calibration/1\"\n[machine]\nname = \"one\"\n"
                        << "device = \"here\"\nexecutor = \"" << executor
                        << "\"\nsource = \"test\"\ndate = \"2026-12-01\"\n"
                        << "[host]\nlaunch_us = 5.0\n";
    const Forecast f =
        forecast(parse_scenario("model = \"gpt2\"\nstrategy = \"ddp\"\ncluster = \"dgx-h100\"\n"
                                "micro_batch = 16\ncalibration = \"./" +
                                    file + "\"\n",
                                "s.toml"));
    return f.straggling;
  };
  CHECK(lost("cpu threads") == 0);
  CHECK(lost("cpu mpi") == 0);
  CHECK(lost("cuda") > 0);
  std::filesystem::remove(file);
  const Scenario plain = parse_scenario(
      "model = \"gpt2\"\nstrategy = \"ddp\"\ncluster = \"dgx-h100\"\nmicro_batch = 16\n", "s.toml");
  CHECK(forecast(plain).straggling > 0);
  CHECK(forecast(plain, {.alike = true}).straggling == 0);
}
