#include <doctest/doctest.h>

#include "sim/strategies/zero/ipg_bucket.hpp"
#include "sim/strategies/zero/partition.hpp"
#include "tests/unit/strategies/four_layers.hpp"
#include "tests/unit/strategies/three_units.hpp"
#include "tests/unit/strategies/worked.hpp"

namespace stepcast {
namespace {

TEST_CASE("E-27: 1001 elements on 4 ranks are padded to 1008, 252 each, 10 elements are 3 each") {
  CHECK(zero::flat_partition(1001, 4).padded_elements == 1008);
  CHECK(zero::flat_partition(1001, 4).per_rank == 252);
  CHECK(zero::parameter_partition(10, 4) == 3);
  CHECK(zero::parameter_partition(10, 4) * 4 == 12);
}

TEST_CASE("a flush is triggered by the next gradient, not by a full bucket") {
  const std::vector<std::int64_t> numels{10, 10, 10, 10};
  const std::vector<int> arrival{3, 2, 1, 0};
  const std::vector<zero::Flush> flushes = zero::plan_flushes(numels, arrival, 20);
  REQUIRE(flushes.size() == 2);
  CHECK(flushes[0].parameters == std::vector<int>{3, 2});
  CHECK(flushes[0].triggered_by == 1);
  CHECK(flushes[1].parameters == std::vector<int>{1, 0});
  CHECK(flushes[1].triggered_by == -1);
}

TEST_CASE("a parameter larger than the bucket is reduced alone") {
  const std::vector<std::int64_t> numels{10, 100, 10};
  const std::vector<zero::Flush> flushes =
      zero::plan_flushes(numels, std::vector<int>{2, 1, 0}, 20);
  REQUIRE(flushes.size() == 3);
  CHECK(flushes[0].parameters == std::vector<int>{2});
  CHECK(flushes[1].parameters == std::vector<int>{1});
  CHECK(flushes[1].alone);
  CHECK(flushes[2].parameters == std::vector<int>{0});
}

TEST_CASE("E-9: ZeRO-2 with overlap_comm and a bucket of two layers reduces 20-30 and 30-40") {
  TrainingStep step = testing::four_layers(StrategyKind::zero2);
  step.strategy.overlap_comm = true;
  step.strategy.reduce_bucket_elements = 2 * testing::layer_bytes / 4;
  const Schedule schedule = build_schedule(step);
  CHECK(testing::faults(schedule) == "");
  for (auto& engine : testing::both_engines()) {
    const testing::Events e(*engine, schedule, testing::four_layer_cost);
    std::vector<Span> reductions;
    for (const Span& span : e.timeline().spans) {
      const Op& op = schedule.roles[0].steps[0].ops[static_cast<std::size_t>(span.op)];
      if (op.verb == Name("all_reduce")) reductions.push_back(span);
    }
    REQUIRE(reductions.size() == 2);
    CHECK(reductions[0].start == doctest::Approx(20));
    CHECK(reductions[0].end == doctest::Approx(30));
    CHECK(reductions[1].start == doctest::Approx(30));
    CHECK(reductions[1].end == doctest::Approx(40));
    CHECK(e.end() == doctest::Approx(40));
  }
}

TEST_CASE("without overlap_comm ZeRO-2 reduces on the compute stream: 24 of compute and 20 of it") {
  TrainingStep step = testing::four_layers(StrategyKind::zero2);
  step.strategy.reduce_bucket_elements = 2 * testing::layer_bytes / 4;
  const Schedule schedule = build_schedule(step);
  CHECK(testing::faults(schedule) == "");
  for (auto& engine : testing::both_engines()) {
    CHECK(testing::Events(*engine, schedule, testing::four_layer_cost).end() ==
          doctest::Approx(44));
  }
}

TEST_CASE("ZeRO-1 reduces once a step, ZeRO-2 in every micro-batch") {
  for (const StrategyKind kind : {StrategyKind::zero1, StrategyKind::zero2}) {
    for (const bool overlap : {false, true}) {
      TrainingStep step = testing::four_layers(kind);
      step.strategy.overlap_comm = overlap;
      step.accumulation = 3;
      Bytes reduced = 0;
      const Schedule schedule = build_schedule(step);
      CHECK(testing::faults(schedule) == "");
      for (const Op& op : schedule.roles[0].steps[0].ops) {
        if (op.verb == Name("all_reduce")) reduced += bytes_of(op);
      }
      CHECK(reduced == (kind == StrategyKind::zero1 ? 1 : 3) * 4 * testing::layer_bytes);
    }
  }
}

TEST_CASE("every ZeRO-1 and ZeRO-2 knob gives a sound schedule") {
  for (const StrategyKind kind : {StrategyKind::zero1, StrategyKind::zero2}) {
    for (const char* recipe : {"bf16-master", "fp32"}) {
      for (const bool overlap : {false, true}) {
        for (const bool contiguous : {false, true}) {
          for (const bool all_reduce : {false, true}) {
            for (const int accumulation : {1, 3}) {
              for (const std::int64_t bucket : {1, 5'000, 40'000, 500'000'000}) {
                for (const int ranks : {1, 3, 8}) {
                  TrainingStep step = testing::units_and_root(3, kind);
                  step.mesh = {ranks, 1};
                  step.precision = precision_recipe(recipe);
                  step.strategy.overlap_comm = overlap;
                  step.strategy.contiguous_gradients = contiguous;
                  step.strategy.multi_rank_all_reduce = all_reduce;
                  step.strategy.reduce_bucket_elements = bucket;
                  step.accumulation = accumulation;
                  CAPTURE(std::string(to_string(kind)));
                  CAPTURE(overlap);
                  CAPTURE(contiguous);
                  CAPTURE(all_reduce);
                  CAPTURE(accumulation);
                  CAPTURE(bucket);
                  CAPTURE(ranks);
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

}  // namespace
}  // namespace stepcast
