// find_unused_parameters, and what happens to parameters without gradient with and without it.

#include <doctest/doctest.h>

#include "base/error.hpp"
#include "sim/strategies/ddp/unused.hpp"
#include "tests/unit/strategies/ddp_grid.hpp"
#include "tests/unit/strategies/four_layers.hpp"
#include "tests/unit/strategies/schedule_golden.hpp"
#include "tests/unit/strategies/worked.hpp"

namespace stepcast {
namespace {

using testing::bytes_of_each;
using testing::count_of;
using testing::eight_layers;
using testing::four_layer_cost;
using testing::ops_of;

TrainingStep four_layers() { return testing::four_layers(StrategyKind::ddp); }

// Launch order of four layers of 10 MiB with find_unused_parameters: the construction layout,
// walked from l1: {l1} closes at 1 MiB, {l2 l3 l4} at 25; reversed: bucket 0 = {l2 l3 l4}, bucket 1
// = {l1}.

TEST_CASE("E-3: with find_unused_parameters the 28 MiB are launched first, the small bucket last") {
  TrainingStep step = eight_layers();
  step.strategy.find_unused_parameters = true;
  for (const bool first : {false, true}) {
    step.first_step = first;
    const Schedule schedule = build_schedule(step);
    testing::check_sound(schedule);
    for (const char* program : {"first", "steady"}) {
      if (!first && std::string(program) == "first") continue;
      CHECK(bytes_of_each(ops_of(schedule, program), "all_reduce") ==
            std::vector<Bytes>{28 * mib, 4 * mib});
      CHECK(count_of(ops_of(schedule, program), "rebuild_broadcast") == 0);
    }
  }
}

TEST_CASE("E-28: GPT-2's used map is an all-reduce of 592 bytes behind the last bucket") {
  TrainingStep step;
  step.model = load_model("gpt2");
  step.workload.seq_len = 1024;
  step.strategy.kind = StrategyKind::ddp;
  step.precision = precision_recipe("amp-bf16");
  step.mesh = {8, 1};
  step.strategy.find_unused_parameters = true;
  const Schedule schedule = build_schedule(step);
  testing::check_sound(schedule);
  std::vector<Name> collectives;
  for (const Op& op : ops_of(schedule)) {
    if (op.kind == OpKind::collective) collectives.push_back(op.verb);
  }
  CHECK(collectives.back() == Name("used_map"));
  CHECK(bytes_of_each(ops_of(schedule), "used_map") == std::vector<Bytes>{592});
  // 148 parameters and the backward kernels of 14 layers are graph nodes
  CHECK(count_of(ops_of(schedule), "ddp_graph_node") == 1);
}

TEST_CASE("find_unused_parameters: a rank that used all waits at the end, nobody reads the map") {
  TrainingStep step = four_layers();
  step.strategy.find_unused_parameters = true;
  const Schedule schedule = build_schedule(step);
  testing::check_sound(schedule);
  testing::check_golden(schedule, "ddp-find-unused");
  CHECK(count_of(ops_of(schedule), "used_map_download") == 0);
  CHECK(count_of(ops_of(schedule), "zero_slices") == 0);
  for (auto& engine : testing::both_engines()) {
    const testing::Events events(*engine, schedule, four_layer_cost);
    // gradients of l4, l3, l2 at 12, 16, 20: bucket 0 of 30 MiB starts with the third
    events.check("backward.all_reduce.bucket0", 20, 35);
    events.check("backward.all_reduce.bucket1", 35, 40);
  }
}

TEST_CASE(
    "a parameter that no rank used is marked at the first hook, and its gradient left alone") {
  TrainingStep step = four_layers();
  step.strategy.find_unused_parameters = true;
  step.strategy.unused_parameters = {"l2*"};
  const Schedule schedule = build_schedule(step);
  testing::check_sound(schedule);
  const std::vector<Op>& ops = ops_of(schedule);
  CHECK(count_of(ops, "zero_slices") == 1);
  CHECK(count_of(ops, "used_map_download") == 1);  // it must ask whether others used it
  CHECK(bytes_of_each(ops, "all_reduce") == std::vector<Bytes>{30 * mib, 10 * mib});
  Bytes copied_out = 0;
  for (const Op& op : ops) {
    if (op.verb != Name("copy_out")) continue;
    for (const View& view : schedule.at_views(op.writes)) copied_out += view.bytes;
  }
  CHECK(copied_out == 30 * mib);  // all but l2
  for (auto& engine : testing::both_engines()) {
    const testing::Events events(*engine, schedule, four_layer_cost);
    events.check("backward.all_reduce.bucket0", 16, 31);  // l3 completes it
    events.check("backward.all_reduce.bucket1", 31, 36);
  }
}

TEST_CASE("unused on some ranks: those get the others' average in a gradient of their own") {
  TrainingStep step = four_layers();
  step.strategy.find_unused_parameters = true;
  step.strategy.unused_parameters = {"l2.weight"};
  step.strategy.unused_on_ranks = {3};
  const Schedule schedule = build_schedule(step);
  testing::check_sound(schedule);
  REQUIRE(schedule.roles.size() == 3);  // ranks 0 to 2, 4 to 7, and 3
  CHECK(schedule.roles[0].name == Name("uses"));
  CHECK(schedule.roles[0].rank_count == 3);
  CHECK(schedule.roles[1].first_rank == 4);
  CHECK(schedule.roles[2].name == Name("skips"));
  CHECK(schedule.roles[2].first_rank == 3);
  CHECK(count_of(ops_of(schedule, "steady", 0), "used_map_download") == 0);
  CHECK(count_of(ops_of(schedule, "steady", 2), "used_map_download") == 1);
  // the late gradient of 10 MiB is written by copy-out and freed with the others
  const auto late = [&](std::size_t role, OpKind kind) {
    int count = 0;
    for (const Op& op : ops_of(schedule, "steady", role)) {
      if (op.kind != kind) continue;
      const Buffer& buffer = schedule.buffers[static_cast<std::size_t>(op.buffer)];
      count += buffer.name.str().rfind("late_gradients", 0) == 0;
      if (buffer.name.str().rfind("late_gradients", 0) == 0) CHECK(buffer.bytes == 10 * mib);
    }
    return count;
  };
  CHECK(late(0, OpKind::alloc) == 0);
  CHECK(late(2, OpKind::alloc) == 1);
  CHECK(late(2, OpKind::free) == 1);
}

TEST_CASE("static_graph handles what is unused without a used map in the steady step") {
  TrainingStep step = four_layers();
  step.strategy.static_graph = true;
  step.strategy.unused_parameters = {"l2.weight"};
  for (const bool first : {false, true}) {
    step.first_step = first;
    const Schedule schedule = build_schedule(step);
    testing::check_sound(schedule);
    CHECK(count_of(ops_of(schedule), "used_map") == 0);
    CHECK(count_of(ops_of(schedule), "zero_slices") == 1);
  }
}

TEST_CASE("unused on every rank without the flag: its bucket and later ones are never launched") {
  TrainingStep step = four_layers();
  step.strategy.bucket_cap_mib = 10;  // four buckets: l4, l3, l2, l1
  step.strategy.unused_parameters = {"l2.weight"};
  for (const bool views : {false, true}) {
    step.strategy.gradient_as_bucket_view = views;
    const Schedule schedule = build_schedule(step);
    // Nobody waits for the two that were launched: the check sees that the step is broken.
    CHECK(testing::faults(schedule).find("backward.all_reduce.bucket1") != std::string::npos);
    CHECK(bytes_of_each(ops_of(schedule), "all_reduce") == std::vector<Bytes>{10 * mib, 10 * mib});
    CHECK(count_of(ops_of(schedule), "copy_out") == 0);  // not even of those that were
  }
  const auto problem = ddp::unreduced_gradients(step);
  REQUIRE(problem);
  CHECK(problem->everywhere);
  CHECK(problem->text ==
        "unused_parameters: 'l2.weight' gets no gradient on all 8 ranks, so bucket 2 of 4 and "
        "those after it are never all-reduced: the step runs on unreduced gradients and the next "
        "forward stops with PyTorch's \"Expected to have finished reduction in the prior "
        "iteration\"; find_unused_parameters (or static_graph, where it is the same in every step) "
        "cures it");
  step.first_step = true;  // one bucket, which misses it too
  CHECK(ddp::unreduced_gradients(step)->text.find("so bucket 0 of 1 and") != std::string::npos);
}

TEST_CASE("unused on some ranks without the flag: the others hang, and both engines find it") {
  TrainingStep step = four_layers();
  step.strategy.bucket_cap_mib = 10;
  step.strategy.unused_parameters = {"l2.weight"};
  step.strategy.unused_on_ranks = {3, 6};
  const auto problem = ddp::unreduced_gradients(step);
  REQUIRE(problem);
  CHECK(!problem->everywhere);
  CHECK(problem->text ==
        "unused_parameters: 'l2.weight' gets no gradient on ranks 3, 6, so bucket 2 of 4 is never "
        "complete there: the other ranks hang in its all-reduce until the process group's timeout, "
        "and ranks 3, 6 stop at the next forward with PyTorch's \"Expected to have finished "
        "reduction in the prior iteration\"; find_unused_parameters cures it");
  const Schedule schedule = build_schedule(step);
  const std::string faults = testing::faults(schedule);
  CHECK(faults.find("bucket2") != std::string::npos);  // the static check sees it as well
  const CostTable costs = costs_by(schedule, four_layer_cost);
  for (auto& engine : testing::both_engines()) {
    RunOptions options;
    options.programs = {0};
    std::string hang;
    try {
      engine->run(schedule, costs, options);
    } catch (const Deadlock& error) {
      hang = error.what();
    }
    INFO(hang);
    CHECK(hang.find("role \"uses\" is at all_reduce of unit \"bucket2\"") != std::string::npos);
    CHECK(hang.find("role \"skips\" has ended") != std::string::npos);
  }
  step.strategy.find_unused_parameters = true;
  CHECK(!ddp::unreduced_gradients(step));
  testing::check_sound(build_schedule(step));
}

TEST_CASE("names that match nothing, every parameter, and ranks that do not exist are refused") {
  const auto message = [](TrainingStep step) {
    try {
      build_schedule(step);
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  TrainingStep step = four_layers();
  step.strategy.unused_parameters = {"l9.weight"};
  CHECK(message(step).find("unused_parameters: 'l9.weight' matches no parameter") !=
        std::string::npos);
  step.strategy.unused_parameters = {"*"};
  CHECK(message(step).find("every parameter is named") != std::string::npos);
  step.strategy.unused_parameters = {"l1*"};
  step.strategy.unused_on_ranks = {8};
  CHECK(message(step).find("unused_on_ranks: 8 is no rank; accepted: 0 to 7") != std::string::npos);
  step.strategy.unused_parameters.clear();
  step.strategy.unused_on_ranks = {1};
  CHECK(message(step).find("unused_on_ranks:") == 0);
}

}  // namespace
}  // namespace stepcast
