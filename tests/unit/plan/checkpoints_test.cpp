// Checkpoints, goodput and failures, by hand and against each other.
#include "sim/plan/checkpoints.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "sim/plan/failures.hpp"

using namespace stepcast;

namespace {

// 96 GB, 8 nodes of 8 GPUs.
CheckpointSetup setup() {
  CheckpointSetup s;
  s.bytes = 96'000'000'000;
  s.nodes = 8;
  s.gpus = 64;
  s.node_gbps = 2;
  s.storage_gbps = 100;
  s.copy_gbps = 20;
  s.gather_gbps = 50;
  s.host_memory_bytes = 64e9;
  return s;
}

}  // namespace

TEST_CASE("sharded, every rank copies its 64th and its node writes an eighth") {
  const CheckpointCost c = checkpoint_cost(setup(), CheckpointWriter::sharded, true);
  CHECK(c.stall == doctest::Approx(96.0 / 64 / 20));  // 75 ms
  CHECK(c.lag == doctest::Approx(96.0 / 16));         // 6 s
  CHECK(c.read == doctest::Approx(6));
  CHECK(c.host_bytes == doctest::Approx(12e9));
  CHECK(c.fits_host);
  const CheckpointCost waits = checkpoint_cost(setup(), CheckpointWriter::sharded, false);
  CHECK(waits.stall == doctest::Approx(6.075));
  CHECK(waits.lag == 0);
}

TEST_CASE("gathered, one GPU passes all of it to a host that has too little memory") {
  // The copy at 20 GB/s is slower than the gather at 50: 4.8 s; one node writes 96 GB in 48 s.
  const CheckpointCost c = checkpoint_cost(setup(), CheckpointWriter::gathered, true);
  CHECK(c.stall == doctest::Approx(4.8));
  CHECK(c.lag == doctest::Approx(48));
  CHECK(c.host_bytes == doctest::Approx(96e9));
  CHECK_FALSE(c.fits_host);             // of 64 GB
  CHECK(c.read == doctest::Approx(6));  // all nodes read
}

TEST_CASE("storage that all nodes share binds where they are many") {
  CheckpointSetup s = setup();
  s.storage_gbps = 8;  // less than 8 nodes x 2
  CHECK(checkpoint_cost(s, CheckpointWriter::sharded, true).lag == doctest::Approx(12));
}

TEST_CASE("Young, Daly and the best interval of the essay's example") {
  // M = 3,600, stall 60: Young sqrt(2 * 60 * 3600) = 657.3; Daly 657.3 (1 + sqrt(1/120) / 3 +
  // 1/1080) - 60 = 617.9.
  const CheckpointCost cost{.stall = 60};
  const FailureRates rates{.mtbf = 3600, .restart = 600};
  const CheckpointPlan plan = best_interval(cost, rates);
  CHECK(plan.young == doctest::Approx(657.27).epsilon(1e-4));
  CHECK(plan.daly == doctest::Approx(617.88).epsilon(1e-4));
  CHECK(plan.interval == doctest::Approx(617.9).epsilon(1e-3));
  // 617.9 / (3600 e^(1/6) (e^(677.9/3600) - 1))
  CHECK(plan.goodput == doctest::Approx(0.7012).epsilon(1e-3));
  // No other interval is better.
  for (const double other : {0.5, 0.9, 1.1, 2.0}) {
    CHECK(goodput(other * plan.interval, cost, rates) < plan.goodput);
  }
}

TEST_CASE("without failures nothing is ever written, and an interval only costs its stalls") {
  CHECK(best_interval({.stall = 60}, {}).goodput == 1);
  CHECK(goodput(540, {.stall = 60}, {}) == doctest::Approx(0.9));
}

TEST_CASE("a write in the background is not overtaken by the next") {
  const CheckpointPlan plan = best_interval({.stall = 0.01, .lag = 500}, {.mtbf = 3600});
  CHECK(plan.young < 10);
  CHECK(plan.interval == 500);
}

TEST_CASE("a job without failures takes its work and its stalls, to the second") {
  // 1,000 s in intervals of 300: three checkpoints of 10 s, and a last part of 100.
  const JobRun run = run_job(1000, 300, {.stall = 10}, {}, 1);
  CHECK(run.wall == doctest::Approx(1030));
  CHECK(run.failures == 0);
}

TEST_CASE("failures played out event by event agree with the formula") {
  // A long job, about 20,000 failures: the mean is known to well under 1 %.
  struct Case {
    CheckpointCost cost;
    FailureRates rates;
  };
  const Case cases[] = {{{.stall = 60}, {.mtbf = 3600, .restart = 600}},
                        {{.stall = 2, .lag = 300}, {.mtbf = 7200, .restart = 300}},
                        {{.stall = 5, .lag = 30}, {.mtbf = 86400, .restart = 900}}};
  for (const Case& c : cases) {
    CAPTURE(c.rates.mtbf);
    const CheckpointPlan plan = best_interval(c.cost, c.rates);
    const Seconds work = 20000 * c.rates.mtbf * plan.goodput;
    const JobRun run = run_job(work, plan.interval, c.cost, c.rates, 7);
    CHECK(work / run.wall == doctest::Approx(plan.goodput).epsilon(0.01));
    CHECK(static_cast<double>(run.failures) > 10000);
    // A checkpoint that is written later than it is taken matters: without the lag it is better.
    if (c.cost.lag > 100) {
      const CheckpointCost prompt{.stall = c.cost.stall};
      CHECK(goodput(plan.interval, prompt, c.rates) > 1.03 * plan.goodput);
    }
  }
}

TEST_CASE("runs differ by seed, are the same with the same one, and hold eight in ten") {
  const CheckpointCost cost{.stall = 5, .lag = 30};
  const FailureRates rates{.mtbf = 86400, .restart = 900};
  const JobRuns runs = run_jobs(50, 86400 * 20, 1500, cost, rates, 3);
  CHECK(runs.runs == 50);
  CHECK(runs.low < runs.mean);
  CHECK(runs.mean < runs.high);
  CHECK(runs.failures == doctest::Approx(20).epsilon(0.15));
  CHECK(run_jobs(50, 86400 * 20, 1500, cost, rates, 3).mean == runs.mean);
  CHECK(run_jobs(50, 86400 * 20, 1500, cost, rates, 4).mean != runs.mean);
}

TEST_CASE("a job that fails faster than it restarts is given up, not waited for") {
  CHECK(run_jobs(1, 1e6, 100, {.stall = 50}, {.mtbf = 10, .restart = 1000}, 1).runs == 0);
}
