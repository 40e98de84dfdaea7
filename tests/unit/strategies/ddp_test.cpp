#include <doctest/doctest.h>

#include "tests/unit/strategies/four_layers.hpp"
#include "tests/unit/strategies/worked.hpp"

namespace stepcast {
namespace {

using testing::four_layer_cost;

TrainingStep four_layers() { return testing::four_layers(StrategyKind::ddp); }

TEST_CASE("E-8: DDP in steady state overlaps two buckets with backward and exposes 15 of 20") {
  const Schedule schedule = build_schedule(four_layers());
  CHECK(testing::faults(schedule) == "");
  for (auto& engine : testing::both_engines()) {
    const testing::Events events(*engine, schedule, four_layer_cost);
    // forward 0-8, backward 8-24; l4's 10 MiB are the first bucket, the other 30 the second
    events.check("backward.all_reduce.bucket0", 12, 17);
    events.check("backward.all_reduce.bucket1", 24, 39);
    CHECK(events.end() == doctest::Approx(39));
  }
}

TEST_CASE("E-8: an explicit cap of 10 MiB makes four buckets and ends at 32") {
  TrainingStep step = four_layers();
  step.strategy.bucket_cap_mib = 10;
  const Schedule schedule = build_schedule(step);
  CHECK(testing::faults(schedule) == "");
  for (auto& engine : testing::both_engines()) {
    const testing::Events events(*engine, schedule, four_layer_cost);
    events.check("backward.all_reduce.bucket0", 12, 17);
    events.check("backward.all_reduce.bucket1", 17, 22);
    events.check("backward.all_reduce.bucket2", 22, 27);
    events.check("backward.all_reduce.bucket3", 27, 32);
    CHECK(events.end() == doctest::Approx(32));
  }
}

TEST_CASE("E-8: the first iteration reduces everything after backward, 24 to 44") {
  TrainingStep step = four_layers();
  step.first_step = true;
  const Schedule schedule = build_schedule(step);
  REQUIRE(schedule.roles.size() == 1);
  REQUIRE(schedule.roles[0].steps.size() == 4);
  const int first = testing::program_named(schedule, "first");
  CHECK(testing::faults(schedule) == "");
  const CostTable costs = costs_by(schedule, four_layer_cost);
  for (auto& engine : testing::both_engines()) {
    RunOptions options;
    options.programs = {first};
    const Timeline timeline = engine->run(schedule, costs, options);
    int reductions = 0;
    for (const Span& span : timeline.spans) {
      const Op& op = testing::ops_of(schedule, "first")[static_cast<std::size_t>(span.op)];
      if (op.kind != OpKind::collective) continue;
      ++reductions;
      CHECK(span.start == doctest::Approx(24));
      CHECK(span.end == doctest::Approx(44));
    }
    CHECK(reductions == 1);
  }
}

TEST_CASE("E-28: the second forward broadcasts the order, parameters + 1 and buckets as int32") {
  TrainingStep step = four_layers();
  step.first_step = true;
  const Schedule schedule = build_schedule(step);
  std::vector<std::int64_t> broadcasts;
  for (const Op& op : testing::ops_of(schedule, "second")) {
    if (op.kind == OpKind::collective && op.collective == CollectiveKind::broadcast) {
      CHECK(op.dtype == Dtype::int32);
      broadcasts.push_back(op.elements);
    }
  }
  CHECK(broadcasts == std::vector<std::int64_t>{5, 2});
}

TEST_CASE("DDP reduces once a step without sync, every micro-batch with it") {
  TrainingStep step = four_layers();
  step.accumulation = 4;
  const auto reduced = [](const Schedule& schedule) {
    Bytes bytes = 0;
    for (const Op& op : schedule.roles[0].steps[0].ops) {
      if (op.kind == OpKind::collective) bytes += bytes_of(op);
    }
    return bytes;
  };
  for (const bool view : {false, true}) {
    step.strategy.gradient_as_bucket_view = view;
    step.strategy.accumulation_sync = AccumulationSync::last;
    const Schedule last = build_schedule(step);
    CHECK(testing::faults(last) == "");
    CHECK(reduced(last) == 40 * mib);
    step.strategy.accumulation_sync = AccumulationSync::every;
    const Schedule every = build_schedule(step);
    CHECK(testing::faults(every) == "");
    CHECK(reduced(every) == 160 * mib);
  }
}

TEST_CASE("gradient_as_bucket_view has no copy-out") {
  TrainingStep step = four_layers();
  const auto copies_out = [](const Schedule& schedule) {
    int count = 0;
    for (const Op& op : schedule.roles[0].steps[0].ops) count += op.verb == Name("copy_out");
    return count;
  };
  CHECK(copies_out(build_schedule(step)) == 2);
  step.strategy.gradient_as_bucket_view = true;
  CHECK(copies_out(build_schedule(step)) == 0);
}

}  // namespace
}  // namespace stepcast
