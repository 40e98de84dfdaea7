// Why a step takes as long as it does: causes, host, buckets, the best change.
#include "sim/explain/explain.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "base/error.hpp"
#include "tests/unit/report/small_step.hpp"

using namespace stepcast;

namespace {

bool says(const Explanation& e, const std::string& words) {
  return std::any_of(e.sentences.begin(), e.sentences.end(), [&](const std::string& sentence) {
    return sentence.find(words) != std::string::npos;
  });
}

Explanation of(const std::string& text) { return explain(parse_scenario(text, "test")); }

}  // namespace

TEST_CASE("what the host does is counted by work, and by lane") {
  const Schedule schedule = small_step();
  CostTable costs = small_step_costs(schedule);
  for (OpCost& cost : costs.costs) cost.host = 5;
  Seconds busiest = 0;
  const std::vector<HostCost> list = host_costs(schedule, costs, 0, busiest);
  // Three collectives, four kernels, 5 s each, on one lane.
  REQUIRE(list.size() == 2);
  CHECK(list[0].work == "launches");
  CHECK(list[0].count == 4);
  CHECK(list[0].seconds == doctest::Approx(20));
  CHECK(list[1].seconds == doctest::Approx(15));
  CHECK(busiest == doctest::Approx(35));
}

TEST_CASE("a side of the bucket size binds where leaving it gains more than 1 %") {
  using Side = BucketSide::Side;
  CHECK(side_of(1.0, 1.0, 0.995) == Side::flat);
  CHECK(side_of(1.0, 1.1, 0.95) == Side::latency);
  CHECK(side_of(1.0, 0.95, 1.1) == Side::overlap);
  CHECK(side_of(1.0, 0.97, 0.95) == Side::latency);
  CHECK(side_of(1.0, 0.95, 0.97) == Side::overlap);
}

TEST_CASE("10 GbE: small buckets lose to latency, large ones to lost overlap") {
  const std::string ethernet =
      "model = \"bert-large\"\nstrategy = \"ddp\"\nmicro_batch = 8\ncluster = \"dgx-a100\"\n"
      "nodes = 4\nnic_gbps = 1.25\nnetwork = \"ethernet\"\nbucket_cap_mb = ";
  const Explanation small = of(ethernet + "5\n");
  CHECK(small.bucket->side == BucketSide::Side::latency);
  CHECK(says(small, "on the small side: launches and latency"));
  const Explanation large = of(ethernet + "1000\n");
  CHECK(large.bucket->side == BucketSide::Side::overlap);
  CHECK(says(large, "on the large side: overlap is lost"));
  // Either way it is the NIC that would gain most.
  CHECK(large.sensitivities.front().resource == "nic");
}

TEST_CASE("on NVLink the bucket size hardly matters, and that is said") {
  const Explanation e =
      of("model = \"bert-large\"\nstrategy = \"ddp\"\nmicro_batch = 8\ncluster = \"dgx-h100\"\n");
  CHECK(e.bucket->side == BucketSide::Side::flat);
  CHECK(says(e, "the size hardly matters here"));
}

TEST_CASE("the best change is a forecast of its own and gains what it says") {
  const Explanation e =
      of("model = \"llama-3.2-1b\"\nseq_len = 2048\nstrategy = \"zero2\"\ncluster = \"dgx-a100\"\n"
         "nodes = 2\nnic_gbps = 5\n");
  REQUIRE(e.best >= 0);
  const Change& best = e.changes[static_cast<std::size_t>(e.best)];
  CHECK(best.fits);
  const Report r = forecast(best.scenario).report;
  CHECK(r.step_time == best.step);
  CHECK(best.gain == doctest::Approx(e.report.step_time / r.step_time - 1));
  for (const Change& change : e.changes) {
    if (!change.fits || change.changes_batch || change.changes_arithmetic) continue;
    CHECK(change.gain <= best.gain);
  }
  CHECK(says(e, "The single best change: " + best.words));
}

TEST_CASE("where the allocator retries, expandable segments are among the changes") {
  const Explanation e =
      of("model = \"llama-3-8b\"\nseq_len = 8192\nstrategy = \"hsdp\"\ncluster = \"aws-p5\"\n"
         "nodes = 2\n");
  const auto change = std::find_if(e.changes.begin(), e.changes.end(), [](const Change& c) {
    return c.flags == "--expandable-segments true";
  });
  REQUIRE(change != e.changes.end());
  CHECK(change->gain > 0.01);
  CHECK(says(e, "The device is full: 2 times a step"));
  CHECK(says(e, "all ranks wait for the slowest of them"));
  CHECK_FALSE(says(e, "launch-bound"));
  const Report then = forecast(change->scenario).report;
  CHECK(then.memory.front().reserved->retries == 0);
}

TEST_CASE("GPUs that share NICs are named, and so is a slow rank") {
  const Explanation e =
      of("model = \"llama-3.2-1b\"\nseq_len = 1024\nstrategy = \"ddp\"\ncluster = \"gcp-a3-high\"\n"
         "nodes = 4\ncollective_corrections = false\nperturb = [\"rank=3:slow=0.5\"]\n");
  CHECK(says(e, "of which 8 GPUs share 4"));
  CHECK(says(e, "all ranks wait for the slowest"));
}

TEST_CASE("a step that is all compute has one sentence of it and nothing exposed") {
  const Explanation e = of(
      "model = \"gpt2\"\nstrategy = \"ddp\"\ncluster = \"dgx-a100\"\ngpus = 1\nmicro_batch = 8\n");
  CHECK(e.exposed.empty());
  CHECK_FALSE(e.bucket.has_value());
  CHECK(says(e, "the model's kernels take"));
}
