// E-26 and the schedule of ZeRO stage 3.

#include <doctest/doctest.h>

#include "sim/strategies/zero/coordinator.hpp"
#include "tests/unit/strategies/three_units.hpp"
#include "tests/unit/strategies/worked.hpp"

namespace stepcast {
namespace {

using zero::Coordinator;

// Four modules of one parameter each, forward and backward; "f0" on demand, "p1" prefetched, "/"
// between calls.
struct Run {
  std::string calls;
  int count = 0;
  std::int64_t volume = 0;

  Run(Coordinator& coordinator, std::int64_t numel) {
    coordinator.begin_step();
    for (const int module : {0, 1, 2, 3, 3, 2, 1, 0}) {
      const std::vector<int> parameters{module};
      const zero::Fetch fetch = coordinator.before(parameters);
      note("f", fetch.on_demand, numel);
      note("p", fetch.prefetch, numel);
      coordinator.after(parameters);
    }
    coordinator.end_step();
  }

  void note(const char* kind, const std::vector<int>& parameters, std::int64_t numel) {
    if (parameters.empty()) return;
    if (count > 0) calls += " ";
    calls += kind;
    for (const int p : parameters) calls += std::to_string(p);
    ++count;
    volume += numel * static_cast<std::int64_t>(parameters.size());
  }
};

Run second_iteration(std::int64_t numel, Coordinator::Limits limits) {
  Coordinator coordinator({numel, numel, numel, numel}, limits);
  const Run first(coordinator, numel);
  CHECK(first.count == 8);  // recording: everything on demand, released after each use
  CHECK(first.calls == "f0 f1 f2 f3 f3 f2 f1 f0");
  const Run second(coordinator, numel);
  const Run third(coordinator, numel);
  CHECK(second.calls == third.calls);
  return second;
}

TEST_CASE("E-26: stage 3 gathers from the second iteration on (rules replayed from the source)") {
  SUBCASE("a: bucket 2e7, no reuse: 8 gathers, the fourth module's backward exposed") {
    CHECK(second_iteration(20'000'000, {20'000'000, 1'000'000'000, 0}).calls ==
          "f0 p1 p2 p3 p2 f3 p1 p0");
  }
  SUBCASE("b: with reuse 1 the last module is kept: 7 gathers") {
    CHECK(second_iteration(20'000'000, {20'000'000, 1'000'000'000, 1}).count == 7);
  }
  SUBCASE("c: defaults: two calls, every parameter once") {
    const Run run = second_iteration(20'000'000, {});
    CHECK(run.calls == "f0 p123");
    CHECK(run.volume == 80'000'000);
  }
  SUBCASE("d: four of 300 M: 6 gathers, two kept from forward to backward") {
    CHECK(second_iteration(300'000'000, {}).calls == "f0 p1 p2 p3 p1 p0");
  }
}

TEST_CASE("E-18: ZeRO-3 without reuse sends 36.75 GB a step, 147 over four micro-batches") {
  std::vector<Parameter> tensors;
  for (int i = 0; i < 100; ++i) tensors.push_back({Name("t" + std::to_string(i)), {70'000'000}});
  TrainingStep step;
  step.model = model_of_tensors(tensors);
  step.strategy.kind = StrategyKind::zero3;
  step.strategy.max_reuse_distance = 0;
  step.precision = precision_recipe("bf16-master");
  step.mesh = {1, 8};
  for (const int micro_batches : {1, 4}) {
    step.accumulation = micro_batches;
    const Schedule schedule = build_schedule(step);
    double gb = 0;
    for (const Op& op : schedule.roles[0].steps.back().ops) {
      if (op.kind == OpKind::collective) gb += ring_bytes_sent(op, 8) / 1e9;
    }
    CHECK(gb == doctest::Approx(micro_batches * 36.75));
  }
}

TEST_CASE("every ZeRO-3 knob gives a sound schedule") {
  for (const char* recipe : {"bf16-master", "fp32"}) {
    for (const bool overlap : {false, true}) {
      for (const bool leaf : {false, true}) {
        for (const int accumulation : {1, 3}) {
          for (const std::int64_t bucket : {5'000, 500'000'000}) {
            for (const std::int64_t reuse : {0, 1'000'000'000}) {
              for (const std::int64_t threshold : {0, 100, 100'000}) {
                for (const int ranks : {1, 3, 8}) {
                  TrainingStep step = testing::units_and_root(3, StrategyKind::zero3);
                  step.mesh = {1, ranks};
                  step.precision = precision_recipe(recipe);
                  step.strategy.overlap_comm = overlap;
                  step.strategy.leaf_layers = leaf;
                  step.strategy.reduce_bucket_elements = bucket;
                  step.strategy.prefetch_bucket_elements = 5'000;
                  step.strategy.max_reuse_distance = reuse;
                  step.strategy.persistence_threshold = threshold;
                  step.accumulation = accumulation;
                  CAPTURE(std::string(recipe));
                  CAPTURE(overlap);
                  CAPTURE(leaf);
                  CAPTURE(accumulation);
                  CAPTURE(bucket);
                  CAPTURE(reuse);
                  CAPTURE(threshold);
                  CHECK(testing::faults(build_schedule(step)) == "");
                }
              }
            }
          }
        }
      }
    }
  }
}

TEST_CASE("leaf layers gather once a layer where modules gather once a linear") {
  TrainingStep step = testing::units_and_root(3, StrategyKind::zero3);
  step.strategy.persistence_threshold = 100;
  step.strategy.prefetch_bucket_elements = 0;
  step.strategy.max_reuse_distance = 0;
  step.precision = precision_recipe("bf16-master");
  const auto gathers = [](const Schedule& schedule) {
    int count = 0;
    for (const Op& op : schedule.roles[0].steps.back().ops) {
      count += op.kind == OpKind::collective && op.collective == CollectiveKind::all_gather &&
               op.phase != Phase::optimizer;
    }
    return count;
  };
  // Seven linears a block, embedding and head; forward and backward.
  CHECK(gathers(build_schedule(step)) == 2 * (3 * 7 + 2));
  step.strategy.leaf_layers = true;
  CHECK(gathers(build_schedule(step)) == 2 * (3 + 2));
}

}  // namespace
}  // namespace stepcast
