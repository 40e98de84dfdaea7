// A plan by hand, a search against trying everything, and the winner against simulate.
#include "sim/plan/plan.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/plan/trial.hpp"

using namespace stepcast;

namespace {

PlanQuestion question(const std::string& scenario, double tokens,
                      const std::vector<std::string>& machines, int nodes) {
  PlanQuestion q;
  q.scenario = parse_scenario(scenario, "test");
  q.amount = tokens;
  q.machines = machines;
  q.most_nodes = nodes;
  q.workers = 1;
  return q;
}

std::string refusal(const PlanQuestion& q) {
  try {
    plan(q);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("days, cost and energy of a step that is given, by hand") {
  // 2 nodes of 8 H100, 32 sequences of 1,000 tokens in 1 s: 32,000 tokens/s. 10 days of that are
  // 27.648e9 tokens. 2 USD a GPU-hour: 240 h x 16 x 2 = 7,680 USD. A node draws 8 x 700 + 4,400 =
  // 10,000 W: 240 h x 2 x 10 kW x PUE 1.25 = 6,000 kWh.
  Plan p;
  p.asked.scenario = parse_scenario("model = \"gpt2\"\n", "test");
  p.asked.amount = 32000.0 * 86400 * 10;
  p.asked.failures.none = true;
  p.seq_len = 1000;
  p.checkpoint_bytes = 1'000'000'000;
  PlannedMachine m;
  m.name = "dgx-h100";
  m.gpus_per_node = 8;
  m.price.usd_per_gpu_hour = 2;
  m.node_watts = 10000;
  Trial t;
  t.choice.nodes = 2;
  t.choice.micro_batch = 2;
  t.samples = 32;
  t.step = 1;
  t.low = 0.9;
  t.high = 1.2;
  t.peak = 60;
  t.capacity = 80;
  const Machine node = load_machine("dgx-h100");
  PlanPoint point = point_of(p, m, t, node, 1.25);
  CHECK(point.rate == doctest::Approx(32000));
  CHECK(point.days == doctest::Approx(10));
  CHECK(point.days_low == doctest::Approx(9));
  CHECK(point.days_high == doctest::Approx(12));
  CHECK(*point.cost == doctest::Approx(7680));
  CHECK(*point.kwh == doctest::Approx(6000));
  CHECK(point.headroom == doctest::Approx(0.25));
  CHECK(point.meets);

  // A node that fails every 100 hours: the job every 50. 1 GB sharded over 16 GPUs at 0.8 x 63.0
  // GB/s of PCIe 5 stalls 1.24 ms and is on storage 0.25 s later. The restart takes 900 s + 0.25:
  // about e^(900.5 / 180000) of time lost to restarts, 0.5 %, and next to nothing to checkpoints.
  p.asked.failures.none = false;
  p.asked.failures.node_mtbf_hours = 100;
  p.asked.failures.begin_seconds = 0;
  point = point_of(p, m, t, node, 1.25);
  CHECK(point.rates.mtbf == doctest::Approx(180000));
  CHECK(point.checkpoint.stall == doctest::Approx(1.0 / 16 / (0.8 * 63.015)).epsilon(1e-3));
  CHECK(point.checkpoint.lag == doctest::Approx(0.25));
  CHECK(point.days == doctest::Approx(10 * std::exp(900.5 / 180000)).epsilon(5e-4));
  CHECK(point.days_without_failures == doctest::Approx(10));
  CHECK(*point.cost / point.days == doctest::Approx(768));

  // No amount: 768 USD a day make 3,840 USD five days, a deadline of four is sooner.
  p.asked.failures.none = true;
  p.asked.amount.reset();
  p.asked.budget_usd = 3840;
  CHECK(point_of(p, m, t, node, 1.25).days == doctest::Approx(5));
  p.asked.deadline_days = 4;
  point = point_of(p, m, t, node, 1.25);
  CHECK(point.days == doctest::Approx(4));
  CHECK(point.amount == doctest::Approx(32000.0 * 86400 * 4));
  CHECK(point.meets);

  // No price: no cost, and no budget is known to be kept.
  m.price.usd_per_gpu_hour.reset();
  point = point_of(p, m, t, node, 1.25);
  CHECK_FALSE(point.cost.has_value());
  CHECK_FALSE(point.meets);
}

TEST_CASE("the winner of a plan is what simulate forecasts, to the digit") {
  const Plan p = plan(question("model = \"gpt2\"\nseq_len = 1024\n", 1e10,
                               {"dgx-h100", "aws-p4d", "rtx-3090-2x"}, 2));
  REQUIRE_FALSE(p.points.empty());
  for (const PlanPoint& point : p.points) {
    CAPTURE(point.command);
    const Scenario s = scenario_of(p.asked.scenario, point.trial.choice, point.machine);
    const Report r = forecast(s).report;
    CHECK(r.fits);
    CHECK(r.step_time == point.trial.step);
    CHECK(r.mfu == point.trial.mfu);
    CHECK(r.tokens_per_second == doctest::Approx(point.rate).epsilon(1e-12));
    CHECK(point.headroom >= 0.1);
  }
  CHECK(p.points.front().machine == "dgx-h100");
  CHECK(p.points.front().trial.choice.nodes == 2);
  // The one without a NIC stays alone.
  for (const PlanPoint& point : p.points) {
    if (point.machine == "rtx-3090-2x") CHECK(point.trial.choice.nodes == 1);
  }
}

TEST_CASE("the search finds what trying everything finds") {
  const PlanQuestion q =
      question("model = \"llama-3.2-1b\"\nseq_len = 2048\n", 1e10, {"aws-p4d"}, 2);
  Evaluator evaluator;
  const Plan p = plan(q);
  REQUIRE(p.points.size() == 2);
  for (const PlanPoint& point : p.points) {
    const std::int32_t nodes = point.trial.choice.nodes;
    double best = 0;
    for (std::int32_t strategy = 0; strategy < 5; ++strategy) {
      if (nodes == 1 && plan_strategies()[static_cast<std::size_t>(strategy)].several_nodes)
        continue;
      for (std::int32_t level = 0; level < 3; ++level) {
        for (std::int64_t b = 1; b <= 64; b *= 2) {
          const Trial t =
              timed(evaluator, q.scenario, {0, nodes, strategy, level, b, 1}, "aws-p4d", "formula");
          if (static_cast<double>(t.peak) > 0.9 * static_cast<double>(t.capacity)) break;
          best = std::max(best, t.samples / t.step);
        }
      }
    }
    Choice c = point.trial.choice;
    const Trial chosen = timed(evaluator, q.scenario, c, "aws-p4d", "formula");
    CHECK(chosen.samples / chosen.step >= 0.98 * best);
  }
}

TEST_CASE("a global batch is kept and filled up by accumulation") {
  // 2^17 tokens are 64 sequences of 2,048: on 8 GPUs of one node 8 a GPU, on 16 4.
  PlanQuestion q = question("model = \"llama-3.2-1b\"\nseq_len = 2048\n", 1e10, {"aws-p4d"}, 2);
  q.global_batch_tokens = 131072;
  const Plan p = plan(q);
  REQUIRE(p.points.size() == 2);
  for (const PlanPoint& point : p.points) {
    CHECK(point.trial.samples == 64);
    const Choice& c = point.trial.choice;
    CHECK(c.micro_batch * c.accumulation * c.nodes * 8 == 64);
  }
  // Less than one sequence a GPU: two nodes of 8 are too many for 8 sequences.
  q.global_batch_tokens = 8 * 2048;
  const Plan small = plan(q);
  REQUIRE(small.points.size() == 1);
  CHECK(small.points.front().trial.choice.nodes == 1);
  CHECK(small.points.front().next.why_not.find("global batch") != std::string::npos);
}

TEST_CASE("the front holds what nothing beats in days and in cost, and a deadline ranks by cost") {
  PlanQuestion q = question("model = \"gpt2\"\nseq_len = 1024\nstrategy = \"ddp\"\n", 1e11,
                            {"aws-p4d", "aws-p5", "dgx-h100"}, 4);
  const Plan p = plan(q);
  REQUIRE(p.front.size() >= 2);
  for (const int i : p.front) {
    const PlanPoint& f = p.points[static_cast<std::size_t>(i)];
    REQUIRE(f.cost.has_value());
    for (const PlanPoint& other : p.points) {
      if (!other.cost) continue;
      const bool better = other.days <= f.days && *other.cost <= *f.cost &&
                          (other.days < f.days || *other.cost < *f.cost);
      CHECK_FALSE(better);
    }
  }
  CHECK(std::is_sorted(p.points.begin(), p.points.end(),
                       [](const PlanPoint& a, const PlanPoint& b) { return a.days < b.days; }));
  // The fastest of those with a price needs so long; a bit more is a deadline that some miss.
  q.deadline_days = 1.5 * p.points[static_cast<std::size_t>(p.front.front())].days;
  const Plan late = plan(q);
  CHECK(late.rank == Rank::cost);
  CHECK(late.points.front().meets);
  CHECK_FALSE(late.points.back().meets);
  for (const PlanPoint& point : late.points) {
    if (!point.meets || !point.cost) continue;
    CHECK(*late.points.front().cost <= *point.cost);
  }
}

TEST_CASE("what does not fit anywhere is a plan without points, with a sentence") {
  const Plan p = plan(question("model = \"llama-3-70b\"\n", 1e10, {"rtx-3090-2x"}, 4));
  CHECK(p.points.empty());
  CHECK(p.machines.front().why_not.find("does not fit: at least") == 0);
}

TEST_CASE("what the allocator's blocks refuse is planned with expandable segments") {
  // Tensors take 34.66 GiB of 39.39: a tenth stays free, and yet the blocks do not fit.
  PlanQuestion q =
      question("model = \"llama-3-70b\"\nseq_len = 8192\nnodes = 32\n", 1e12, {"aws-p4d"}, 32);
  const Plan p = plan(q);
  REQUIRE(p.points.size() == 1);
  CHECK(p.points.front().trial.choice.expandable);
  CHECK(p.points.front().command.ends_with("--expandable-segments true"));
  CHECK(to_text(p).find("expandable segments") != std::string::npos);
  CHECK(to_text(p).find("1 step screened") != std::string::npos);
  q.scenario.expandable_segments = false;
  const std::string why = plan(q).machines.front().why_not;
  CHECK(why.find("does not fit in the allocator's blocks") == 0);
  CHECK(why.find("expandable_segments true was not tried") != std::string::npos);
}

TEST_CASE("where the allocator retries in every step, expandable segments are planned with") {
  // Tensors take 69.5 GiB of 79.1 and their blocks all of it: two retries a step.
  PlanQuestion q = question(
      "model = \"llama-3-8b\"\nseq_len = 8192\nnodes = 2\nstrategy = \"hsdp\"\n"
      "micro_batch = 1\ncheckpointing = \"none\"\n",
      1e12, {"aws-p5"}, 2);
  const Plan p = plan(q);
  REQUIRE(p.points.size() == 1);
  CHECK(p.points.front().trial.choice.expandable);
  CHECK(p.points.front().trial.retries == 0);
  q.scenario.expandable_segments = false;
  const Plan without = plan(q);
  REQUIRE(without.points.size() == 1);
  CHECK(without.points.front().trial.retries > 0);
  CHECK(without.points.front().trial.step > p.points.front().trial.step);
}

TEST_CASE("a machine that misses the deadline is shown at its fastest, not at its cheapest") {
  PlanQuestion q =
      question("model = \"gpt2\"\nseq_len = 1024\nstrategy = \"ddp\"\n", 1e11, {"aws-p4d"}, 4);
  const Plan all = plan(q);
  REQUIRE(all.points.size() == 3);
  q.deadline_days = 0.5 * all.points.front().days;
  const Plan late = plan(q);
  CHECK(late.rank == Rank::cost);
  CHECK(late.points[static_cast<std::size_t>(late.machines.front().best)].trial.choice.nodes == 4);
  // A deadline within the range of 8 in 10 is at risk, one beyond it is not.
  const PlanPoint& fastest = all.points.front();
  q.deadline_days = 0.5 * (fastest.days + fastest.days_high);
  CHECK(to_text(plan(q)).find("is at risk: 8 in 10 take") != std::string::npos);
  q.deadline_days = 100 * fastest.days_high;
  CHECK(to_text(plan(q)).find("is at risk") == std::string::npos);
}

TEST_CASE("a training of minutes is told in minutes, and has no checkpoint on its way") {
  const std::string text = to_text(plan(question("model = \"gpt2\"\n", 1e9, {"aws-p5"}, 2)));
  CHECK(text.find("minutes       8 in 10") != std::string::npos);
  CHECK(text.find("none is written on the way") != std::string::npos);
  CHECK(text.find("seconds less, 0.0") != std::string::npos);
  CHECK(text.find(" 0 USD") == std::string::npos);
}

TEST_CASE("GPUs in all may be limited, and what has no price keeps to no budget") {
  PlanQuestion q = question("model = \"gpt2\"\n", 1e9, {"aws-p5", "rtx-3090-2x"}, 4);
  q.most_gpus = 8;
  const Plan p = plan(q);
  for (const PlanPoint& point : p.points) CHECK(point.gpus <= 8);
  q.most_gpus = 4;
  CHECK(plan(q).machines.front().why_not == "has 8 GPUs a node, and --max-gpus is 4");
  q = question("model = \"gpt2\"\n", 1e9, {"dgx-h100", "aws-p5"}, 1);
  q.budget_usd = 1e6;
  const Plan priced = plan(q);
  CHECK(priced.machines.front().best == -1);
  CHECK(priced.machines.front().why_not.find("no price") == 0);
  CHECK(priced.points.size() == 1);
}

TEST_CASE("questions that contradict themselves are refused with what is accepted") {
  const std::string scenario = "model = \"gpt2\"\n";
  PlanQuestion q = question(scenario, 1e9, {"dgx-h100"}, 1);
  q.amount.reset();
  CHECK(refusal(q).find("--tokens: nothing says how much to train") == 0);
  q = question(scenario, -5, {"dgx-h100"}, 1);
  CHECK(refusal(q).find("--tokens: -5 is not accepted") == 0);
  q = question(scenario, std::nan(""), {"dgx-h100"}, 1);
  CHECK(refusal(q).find("--tokens: nan is not accepted") == 0);
  q = question(scenario, 1e9, {"dgx-h100", "dgx-h100"}, 1);
  CHECK(refusal(q).find("twice") != std::string::npos);
  q = question(scenario, 1e9, {"dgx-h10"}, 1);
  CHECK(refusal(q).find("dgx-h100") != std::string::npos);
  q = question(scenario + "gpus = 8\n", 1e9, {}, 1);
  CHECK(refusal(q).find("test:2: gpus: does not apply to a plan") == 0);
  q = question(scenario + "bucket_cap_mb = 5\n", 1e9, {"dgx-h100"}, 1);
  CHECK(refusal(q).find("accepted: with strategy") != std::string::npos);
  q = question("seq_len = 8\n", 1e9, {"dgx-h100"}, 1);
  CHECK(refusal(q).find("no model given") != std::string::npos);
  q = question(scenario + "strategy = \"fsdp2\"\nbucket_cap_mb = 5\n", 1e9, {"dgx-h100"}, 1);
  CHECK(refusal(q).find("bucket_cap_mb") != std::string::npos);
  q = question(scenario, 1e9, {"dgx-h100"}, 1);
  q.rank = Rank::amount;
  CHECK(refusal(q).find("--rank") == 0);
}

TEST_CASE("a batch of thousands of micro-batches is planned as simulate works it out, at once") {
  PlanQuestion q =
      question("model = \"gpt2\"\nseq_len = 1024\nmicro_batch = 1\n", 1e12, {"aws-p4d"}, 1);
  q.global_batch_tokens = 1e7;  // 9,765 sequences on 8 GPUs: 1,220 micro-batches of 1
  const Plan p = plan(q);
  REQUIRE(p.points.size() == 1);
  const PlanPoint& point = p.points.front();
  CHECK(point.trial.choice.accumulation == 1220);
  const Scenario s = scenario_of(p.asked.scenario, point.trial.choice, point.machine);
  CHECK(forecast(s, {.whole = false}).report.step_time == point.trial.step);
  // More micro-batches than a scenario may have are no configuration.
  q.global_batch_tokens = 8.0 * 1024 * 32001;
  CHECK(plan(q).points.empty());
}

TEST_CASE("a batch that is more than all training is refused with both numbers") {
  PlanQuestion q = question("model = \"gpt2\"\nseq_len = 1024\n", 1e9, {"dgx-h100"}, 1);
  q.global_batch_tokens = 2e9;
  CHECK(refusal(q) ==
        "--global-batch-tokens: 2e9 is more than all that is trained on, 1e9 tokens; accepted: up "
        "to 1e9");
  q.global_batch_tokens.reset();
  q.global_batch_samples = 1e6;
  CHECK(refusal(q) ==
        "--global-batch-samples: 1000000 is more than all that is trained on, 1e9 tokens; "
        "accepted: up to 976562");
  q.global_batch_samples = 4;
  CHECK(refusal(q) ==
        "--global-batch-samples: 4 is less than one step of the smallest cluster: 8 GPUs take 8 "
        "samples; accepted: from 8");
}

TEST_CASE("the wait for the slowest rank is the GPUs' time, no link's") {
  Report report;
  report.split.compute = 3;
  report.split.exposed = {{"slowest_rank", 1.0}};
  const Shares shares = shares_of(report);
  CHECK(shares[static_cast<std::size_t>(Limit::compute)] == doctest::Approx(1));
  CHECK(shares[static_cast<std::size_t>(Limit::nvlink)] == 0);
}
