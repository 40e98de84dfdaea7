// E-11 and E-14: FSDP1's prefetch modes and its limiter's queue, event by event.
//
// The expected events are replayed: the rules as read from PyTorch's source, stepped through on
// paper with a host that costs nothing. Nobody traced them on hardware (docs/sources.md,
// "replayed").

#include <doctest/doctest.h>

#include "base/error.hpp"
#include "tests/unit/strategies/three_units.hpp"
#include "tests/unit/strategies/worked.hpp"

namespace stepcast {
namespace {

using Costs = testing::UnitCosts;

TrainingStep three_units() { return testing::units_and_root(3, StrategyKind::fsdp1); }

TEST_CASE("E-11 (replayed): BACKWARD_PRE with the limiter, first iteration, ends at 36") {
  TrainingStep step = three_units();
  step.first_step = true;
  Schedule schedule = build_schedule(step);
  CHECK(testing::faults(schedule) == "");
  for (auto& engine : testing::both_engines()) {
    const testing::Events e(*engine, schedule, Costs{&schedule}, 0);
    e.check("forward.all_gather.root", 0, 1);
    e.check("forward.all_gather.layers.0", 1, 3);
    e.check("forward.all_gather.layers.1", 3, 5);
    e.check("forward.all_gather.layers.2", 6, 8);  // the host waits for the end of forward 0
    e.check("forward.compute.layers.2", 9, 12);
    e.check("backward.all_gather.layers.2", 9, 11);
    e.check("backward.all_gather.layers.1", 11, 13);
    e.check("backward.compute.layers.2", 15, 21);
    e.check("backward.reduce_scatter.layers.2", 21, 23);
    e.check("backward.all_gather.layers.0", 23, 25);
    e.check("backward.compute.layers.0", 27, 33);
    e.check("backward.reduce_scatter.root", 35, 36);
    CHECK(e.end() == doctest::Approx(36));
  }
}

TEST_CASE("E-11 (replayed): BACKWARD_POST ends at 36, no prefetch at 44") {
  TrainingStep step = three_units();
  step.first_step = true;
  step.strategy.backward_prefetch = BackwardPrefetchMode::post;
  const Schedule post = build_schedule(step);
  CHECK(testing::faults(post) == "");
  step.strategy.backward_prefetch = BackwardPrefetchMode::none;
  const Schedule none = build_schedule(step);
  CHECK(testing::faults(none) == "");
  for (auto& engine : testing::both_engines()) {
    const testing::Events p(*engine, post, Costs{&post}, 0);
    p.check("backward.all_gather.layers.2", 9, 11);
    p.check("backward.all_gather.layers.1", 12, 14);
    p.check("backward.all_gather.layers.0", 23, 25);
    CHECK(p.end() == doctest::Approx(36));
    const testing::Events n(*engine, none, Costs{&none}, 0);
    n.check("backward.compute.layers.2", 15, 21);
    n.check("backward.reduce_scatter.layers.2", 21, 23);
    n.check("backward.all_gather.layers.1", 23, 25);
    n.check("backward.compute.layers.1", 25, 31);
    n.check("backward.reduce_scatter.layers.1", 31, 33);
    n.check("backward.all_gather.layers.0", 33, 35);
    n.check("backward.compute.layers.0", 35, 41);
    n.check("backward.reduce_scatter.layers.0", 41, 43);
    n.check("backward.reduce_scatter.root", 43, 44);
    CHECK(n.end() == doctest::Approx(44));
  }
}

TEST_CASE("E-12 (replayed): FSDP1 with heavy communication ends at 50") {
  TrainingStep step = three_units();
  step.first_step = true;
  const Schedule schedule = build_schedule(step);
  for (auto& engine : testing::both_engines()) {
    const testing::Events e(*engine, schedule, Costs{&schedule, 5}, 0);
    CHECK(e.end() == doctest::Approx(50));
  }
}

// Every host_wait of the limiter as "unit that is unsharded -> unit whose free it waits for".
std::vector<std::string> pops(const Schedule& schedule, std::size_t program) {
  const StepProgram& step = schedule.roles[0].steps[program];
  const auto unit = [&](UnitIndex u) {
    std::string name = schedule.units[static_cast<std::size_t>(u)].str();
    const std::size_t dot = name.find('.');
    return dot == std::string::npos ? std::string("R") : name.substr(dot + 1);
  };
  std::vector<std::string> list;
  for (const Op& op : step.ops) {
    if (op.rule != Name("fsdp1.limit-all-gathers")) continue;
    const OpRef ref = schedule.at_refs(op.waits)[0];
    // In the second step the awaited op of the first has the key that the ref's op has here.
    const Op& awaited = step.ops[static_cast<std::size_t>(ref.op)];
    std::string event = awaited.phase == Phase::forward ? "f" : "b";
    event += unit(awaited.unit);
    if (ref.steps_back == 1) event += "@-1";
    list.push_back(std::string(op.phase == Phase::forward ? "F " : "B ") + unit(op.unit) + "->" +
                   event);
  }
  return list;
}

TEST_CASE(
    "E-14 (replayed): the limiter's queue of five units, first iteration and from the second on") {
  TrainingStep step = testing::units_and_root(5, StrategyKind::fsdp1);
  step.first_step = true;
  const Schedule schedule = build_schedule(step);
  CHECK(testing::faults(schedule) == "");
  using List = std::vector<std::string>;
  CHECK(pops(schedule, 0) ==
        List{"F 2->f0", "F 3->f1", "F 4->f2", "B R->f3", "B 2->f4", "B 1->b4", "B 0->b3"});
  // What the first leaves, [b2 b1 b0 bR], the second takes first; it leaves the same again.
  const List steady{"F R->b2@-1", "F 0->b1@-1", "F 1->b0@-1", "F 2->bR@-1", "F 3->f0", "F 4->f1",
                    "B R->f2",    "B 4->f3",    "B 2->f4",    "B 1->b4",    "B 0->b3"};
  CHECK(pops(schedule, 1) == steady);
  CHECK(pops(schedule, 2) == steady);
}

TEST_CASE("without the limiter the host never blocks") {
  TrainingStep step = three_units();
  step.strategy.limit_all_gathers = false;
  const Schedule schedule = build_schedule(step);
  CHECK(testing::faults(schedule) == "");
  for (const Op& op : schedule.roles[0].steps.back().ops) CHECK(op.kind != OpKind::host_wait);
}

TEST_CASE("forward_prefetch issues the next unit's gather before this unit's kernels") {
  TrainingStep step = three_units();
  step.strategy.forward_prefetch = true;
  const Schedule schedule = build_schedule(step);
  CHECK(testing::faults(schedule) == "");
  const StepProgram& steady = schedule.roles[0].steps.back();
  const std::vector<std::string> names = op_names(schedule, steady);
  const auto at = [&](const std::string& name) {
    return std::find(names.begin(), names.end(), name) - names.begin();
  };
  CHECK(at("forward.all_gather.layers.1") < at("forward.compute.layers.0"));
  CHECK(at("forward.all_gather.layers.2") < at("forward.compute.layers.1"));
}

TEST_CASE("every sharding strategy and knob gives a sound schedule") {
  struct Case {
    ShardingStrategy sharding;
    Mesh mesh;
  };
  for (const Case& c :
       {Case{ShardingStrategy::full_shard, {1, 8}}, Case{ShardingStrategy::shard_grad_op, {1, 8}},
        Case{ShardingStrategy::no_shard, {8, 1}}, Case{ShardingStrategy::hybrid_shard, {2, 4}},
        Case{ShardingStrategy::hybrid_shard_zero2, {2, 4}},
        Case{ShardingStrategy::full_shard, {1, 1}}, Case{ShardingStrategy::full_shard, {1, 3}}}) {
    for (const char* recipe : {"bf16-mixed", "bf16-mixed-reduce-bf16", "bf16-pure", "fp32"}) {
      for (const int accumulation : {1, 3}) {
        for (const auto sync : {AccumulationSync::last, AccumulationSync::every}) {
          for (const auto prefetch : {BackwardPrefetchMode::pre, BackwardPrefetchMode::post,
                                      BackwardPrefetchMode::none}) {
            TrainingStep step = three_units();
            step.strategy.sharding = c.sharding;
            step.mesh = c.mesh;
            step.precision = precision_recipe(recipe);
            step.accumulation = accumulation;
            step.strategy.accumulation_sync = sync;
            step.strategy.backward_prefetch = prefetch;
            CAPTURE(std::string(to_string(c.sharding)));
            CAPTURE(std::string(recipe));
            CAPTURE(accumulation);
            CAPTURE(static_cast<int>(sync));
            CHECK(testing::faults(build_schedule(step)) == "");
          }
        }
      }
    }
  }
}

TEST_CASE("FSDP1's names and numbers are read") {
  CHECK(parse_sharding("SHARD_GRAD_OP") == ShardingStrategy::shard_grad_op);
  CHECK(parse_sharding("1") == ShardingStrategy::full_shard);
  CHECK(parse_sharding("5") == ShardingStrategy::hybrid_shard_zero2);
  CHECK_THROWS_AS(parse_sharding("FULLSHARD"), InputError);
  TrainingStep step = three_units();
  step.mesh = {2, 4};
  CHECK_THROWS_AS(build_schedule(step), InputError);
}

}  // namespace
}  // namespace stepcast
