// E-10, E-12, E-13: three units and a root, event for event in both engines.
//
// The expected events are replayed: the rules as read from PyTorch's source, stepped through on
// paper with a host that costs nothing. Nobody traced them on hardware (docs/sources.md,
// "replayed").

#include <doctest/doctest.h>

#include "tests/unit/strategies/three_units.hpp"
#include "tests/unit/strategies/worked.hpp"

namespace stepcast {
namespace {

using Costs = testing::UnitCosts;

TrainingStep three_units() { return testing::units_and_root(3, StrategyKind::fsdp2); }

// The blocks' names come from the model; the tests speak of units 0 to 2.
std::vector<std::string> block_names(const Model& model) {
  std::vector<std::string> names;
  for (const Layer& layer : model.layers) {
    if (layer.kind == LayerKind::block) names.push_back(layer.name.str());
  }
  return names;
}

void check_e10(const testing::Events& e) {
  e.check("forward.all_gather.root", 0, 1);
  e.check("forward.all_gather.layers.0", 1, 3);
  e.check("forward.compute.layers.0", 3, 6);
  e.check("forward.all_gather.layers.1", 3, 5);
  e.check("forward.compute.layers.1", 6, 9);
  e.check("forward.all_gather.layers.2", 5, 7);
  e.check("forward.compute.layers.2", 9, 12);
  e.check("forward.compute.head", 12, 13);
  e.check("backward.all_gather.layers.2", 9, 11);  // overlaps the forward of the same unit
  e.check("backward.compute.head", 13, 15);
  e.check("backward.all_gather.layers.1", 15, 17);
  e.check("backward.compute.layers.2", 15, 21);
  e.check("backward.reduce_scatter.layers.2", 21, 23);
  e.check("backward.all_gather.layers.0", 23, 25);
  e.check("backward.compute.layers.1", 21, 27);
  e.check("backward.reduce_scatter.layers.1", 27, 29);
  e.check("backward.compute.layers.0", 27, 33);
  e.check("backward.reduce_scatter.layers.0", 33, 35);
  e.check("backward.compute.embedding", 33, 34);
  e.check("backward.reduce_scatter.root", 35, 36);
}

TEST_CASE("E-10 (replayed from the rules): FSDP2 with a root and three units ends at 36") {
  const TrainingStep step = three_units();
  const Schedule schedule = build_schedule(step);
  CHECK(testing::faults(schedule) == "");
  const std::vector<std::string> u = block_names(step.model);
  REQUIRE(u == std::vector<std::string>{"layers.0", "layers.1", "layers.2"});
  for (auto& engine : testing::both_engines()) {
    const testing::Events e(*engine, schedule, Costs{&schedule});
    check_e10(e);
    CHECK(e.end() == doctest::Approx(36));
  }
}

TEST_CASE(
    "E-10 (replayed): the host issues gathers, backwards and reduce-scatters in PyTorch's order") {
  const Schedule schedule = build_schedule(three_units());
  const StepProgram& steady = schedule.roles[0].steps[0];
  const std::vector<std::string> names = op_names(schedule, steady);
  std::string order;
  for (std::size_t i = 0; i < steady.ops.size(); ++i) {
    const Op& op = steady.ops[i];
    if (op.kind == OpKind::collective ||
        (op.kind == OpKind::compute && op.verb == Name("compute") &&
         names[i].find("norm") == std::string::npos)) {
      order += names[i] + "\n";
    }
  }
  CHECK(order ==
        "forward.all_gather.root\nforward.compute.embedding\n"
        "forward.all_gather.layers.0\nforward.compute.layers.0\n"
        "forward.all_gather.layers.1\nforward.compute.layers.1\n"
        "forward.all_gather.layers.2\nforward.compute.layers.2\n"
        "forward.compute.head\n"
        "backward.all_gather.layers.2\nbackward.compute.head\n"
        "backward.all_gather.layers.1\nbackward.compute.layers.2\n"
        "backward.reduce_scatter.layers.2\n"
        "backward.all_gather.layers.0\nbackward.compute.layers.1\n"
        "backward.reduce_scatter.layers.1\n"
        "backward.compute.layers.0\nbackward.reduce_scatter.layers.0\n"
        "backward.compute.embedding\nbackward.reduce_scatter.root\n");
}

TEST_CASE("E-12 (replayed): heavy communication on one communicator ends at 50") {
  const Schedule schedule = build_schedule(three_units());
  for (auto& engine : testing::both_engines()) {
    const testing::Events e(*engine, schedule, Costs{&schedule, 5});
    e.check("forward.compute.layers.0", 6, 9);
    e.check("forward.compute.layers.1", 11, 14);
    e.check("forward.compute.layers.2", 16, 19);
    e.check("backward.compute.layers.2", 22, 28);
    e.check("backward.reduce_scatter.layers.2", 28, 33);
    e.check("backward.all_gather.layers.0", 33, 38);
    e.check("backward.compute.layers.1", 28, 34);
    e.check("backward.reduce_scatter.layers.1", 38, 43);
    e.check("backward.compute.layers.0", 38, 44);
    e.check("backward.reduce_scatter.layers.0", 44, 49);
    e.check("backward.reduce_scatter.root", 49, 50);
    CHECK(e.end() == doctest::Approx(50));
  }
}

TEST_CASE("E-12 (replayed): reduce-scatters on a communicator of their own end at 46") {
  TrainingStep step = three_units();
  step.strategy.separate_reduce_scatter_group = true;
  const Schedule schedule = build_schedule(step);
  CHECK(testing::faults(schedule) == "");
  for (auto& engine : testing::both_engines()) {
    const testing::Events e(*engine, schedule, Costs{&schedule, 5});
    // B2 22-28: RS2 28-33 no longer holds AG0 back, which starts with CO(1) at 28.
    e.check("backward.compute.layers.2", 22, 28);
    e.check("backward.reduce_scatter.layers.2", 28, 33);
    e.check("backward.all_gather.layers.0", 28, 33);
    e.check("backward.compute.layers.1", 28, 34);
    e.check("backward.reduce_scatter.layers.1", 34, 39);
    e.check("backward.compute.layers.0", 34, 40);
    e.check("backward.reduce_scatter.layers.0", 40, 45);
    e.check("backward.reduce_scatter.root", 45, 46);
    CHECK(e.end() == doctest::Approx(46));
  }
}

TEST_CASE(
    "E-13 (replayed): HSDP's all-reduces overlap the rest and only the last is exposed, end 43") {
  TrainingStep step = three_units();
  step.strategy.kind = StrategyKind::hsdp;
  step.mesh = {2, 8};
  const Schedule schedule = build_schedule(step);
  CHECK(testing::faults(schedule) == "");
  for (auto& engine : testing::both_engines()) {
    const testing::Events e(*engine, schedule, Costs{&schedule});
    e.check("backward.all_reduce.layers.2", 23, 27);
    e.check("backward.all_reduce.layers.1", 29, 33);
    e.check("backward.all_reduce.layers.0", 35, 39);
    e.check("backward.all_reduce.root", 39, 43);
    check_e10(e);  // the all-reduces delay nothing else
    CHECK(e.end() == doctest::Approx(43));
  }
}

TEST_CASE("without resharding after forward nothing is gathered in backward") {
  TrainingStep step = three_units();
  const auto gathers = [](const Schedule& schedule) {
    int count = 0;
    for (const Op& op : schedule.roles[0].steps[0].ops) {
      count += op.kind == OpKind::collective && op.collective == CollectiveKind::all_gather;
    }
    return count;
  };
  CHECK(gathers(build_schedule(step)) == 7);  // root once, three units twice
  step.strategy.reshard_after_forward = false;
  CHECK(gathers(build_schedule(step)) == 4);
  step.accumulation = 4;
  CHECK(gathers(build_schedule(step)) == 16);  // resharded after each backward
  step.strategy.reshard_after_backward = false;
  CHECK(gathers(build_schedule(step)) == 4);  // once a step
}

TEST_CASE("every knob gives a sound schedule") {
  for (const auto sync :
       {AccumulationSync::last, AccumulationSync::every, AccumulationSync::reduce_scatter_every}) {
    for (const char* recipe : {"bf16-mixed", "bf16-mixed-reduce-bf16", "bf16-pure", "fp32"}) {
      for (const int accumulation : {1, 2, 3}) {
        for (const Mesh mesh : {Mesh{1, 8}, Mesh{2, 4}, Mesh{1, 1}, Mesh{3, 1}, Mesh{1, 3}}) {
          for (const auto wrap : {WrapPolicy::block, WrapPolicy::torchtitan}) {
            for (const auto ckpt : {Checkpointing::none, Checkpointing::full}) {
              if (sync == AccumulationSync::reduce_scatter_every && mesh.replicate == 1) continue;
              TrainingStep step = three_units();
              step.strategy.kind = mesh.replicate > 1 ? StrategyKind::hsdp : StrategyKind::fsdp2;
              step.mesh = mesh;
              step.precision = precision_recipe(recipe);
              step.accumulation = accumulation;
              step.strategy.accumulation_sync = sync;
              step.strategy.wrap = wrap;
              step.workload.checkpointing = ckpt;
              for (const bool reshard : {true, false}) {
                step.strategy.reshard_after_forward = reshard;
                step.strategy.reshard_after_backward = reshard;
                const std::string found = testing::faults(build_schedule(step));
                CAPTURE(std::string(recipe));
                CAPTURE(accumulation);
                CAPTURE(mesh.replicate);
                CAPTURE(mesh.shard);
                CAPTURE(reshard);
                CAPTURE(static_cast<int>(sync));
                CHECK(found == "");
              }
            }
          }
        }
      }
    }
  }
}

TEST_CASE("what a user can get wrong is an InputError") {
  TrainingStep step = three_units();
  step.precision = precision_recipe("amp-bf16");
  CHECK_THROWS_AS(build_schedule(step), InputError);
  step = three_units();
  step.accumulation = 0;
  CHECK_THROWS_AS(build_schedule(step), InputError);
  CHECK_THROWS_AS(precision_recipe("bf15"), InputError);
  CHECK_THROWS_AS(parse_strategy("fsdp3"), InputError);
}

}  // namespace
}  // namespace stepcast
