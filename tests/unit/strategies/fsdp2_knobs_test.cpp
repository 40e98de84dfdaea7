// FSDP2's knobs on the model of E-10 and E-12, event for event in both engines.

#include <doctest/doctest.h>

#include <algorithm>

#include "sim/memory/ledger.hpp"
#include "tests/unit/strategies/three_units.hpp"
#include "tests/unit/strategies/worked.hpp"

namespace stepcast {
namespace {

using Costs = testing::UnitCosts;

TrainingStep units(int blocks) { return testing::units_and_root(blocks, StrategyKind::fsdp2); }

int gathers(const Schedule& schedule) {
  int count = 0;
  for (const Op& op : schedule.roles[0].steps.back().ops) {
    count += op.kind == OpKind::collective && op.collective == CollectiveKind::all_gather;
  }
  return count;
}

TEST_CASE("keep_last_block saves its second gather and lets the one before it start early") {
  TrainingStep step = units(3);
  step.strategy.keep_last_block = true;
  const Schedule schedule = build_schedule(step);
  CHECK(testing::faults(schedule) == "");
  CHECK(gathers(schedule) == 6);  // root, three units, two again
  for (auto& engine : testing::both_engines()) {
    const testing::Events e(*engine, schedule, Costs{&schedule});
    // Issued in pre-backward of unit 2, which copies nothing out: the gather streams last waited
    // for the copy-out of unit 2 in forward, at 9.
    e.check("backward.all_gather.layers.1", 9, 11);
    e.check("backward.compute.layers.2", 15, 21);
    e.check("backward.all_gather.layers.0", 23, 25);
    CHECK(e.end() == doctest::Approx(36));
  }
}

TEST_CASE("two units of explicit backward prefetch end E-12 at 49 instead of 50") {
  TrainingStep step = units(3);
  step.strategy.backward_prefetch_units = 2;
  const Schedule schedule = build_schedule(step);
  CHECK(testing::faults(schedule) == "");
  for (auto& engine : testing::both_engines()) {
    const testing::Events e(*engine, schedule, Costs{&schedule, 5});
    e.check("backward.all_gather.layers.2", 16, 21);  // the root has no list: implicit
    e.check("backward.all_gather.layers.1", 22, 27);
    e.check("backward.all_gather.layers.0", 27, 32);
    e.check("backward.reduce_scatter.layers.2", 32, 37);
    e.check("backward.compute.layers.1", 28, 34);
    e.check("backward.reduce_scatter.layers.1", 37, 42);
    e.check("backward.compute.layers.0", 37, 43);
    e.check("backward.reduce_scatter.layers.0", 43, 48);
    CHECK(e.end() == doctest::Approx(49));
  }
}

TEST_CASE("a forward list of k units keeps k + 1 flat outputs of blocks alive") {
  const auto alive = [](int k) {
    TrainingStep step = units(5);
    step.strategy.forward_prefetch_units = k;
    const Schedule schedule = build_schedule(step);
    CHECK(testing::faults(schedule) == "");
    CHECK(gathers(schedule) == 11);
    int now = 0;
    int most = 0;
    for (const Op& op : schedule.roles[0].steps.back().ops) {
      if (op.phase != Phase::forward) continue;
      if (op.kind != OpKind::alloc && op.kind != OpKind::free) continue;
      const std::string& name = schedule.buffers[static_cast<std::size_t>(op.buffer)].name.str();
      if (name.rfind("gathered.layers.", 0) != 0) continue;
      now += op.kind == OpKind::alloc ? 1 : -1;
      most = std::max(most, now);
    }
    return most;
  };
  CHECK(alive(0) == 2);
  CHECK(alive(1) == 2);
  CHECK(alive(2) == 3);
  CHECK(alive(3) == 4);
}

TEST_CASE(
    "reshard_after_forward = 2 keeps halves and gathers them in pairs on their communicator") {
  TrainingStep step = units(3);
  step.mesh = {4, 2};
  step.strategy.reshard_group = 2;
  const Schedule schedule = build_schedule(step);
  CHECK(testing::faults(schedule) == "");
  CHECK(memory_ledger(schedule).at(0).growth == 0);
  const Costs world{&schedule};
  const auto cost = [&](const Op& op) {
    const bool pair = op.kind == OpKind::collective &&
                      schedule.communicators[static_cast<std::size_t>(op.comm)].axis == Axis::shard;
    return pair ? 1.0 : world(op);
  };
  for (auto& engine : testing::both_engines()) {
    const testing::Events e(*engine, schedule, cost);
    e.check("forward.all_gather.layers.2", 5, 7);
    e.check("backward.all_gather.layers.2", 12, 13);  // its slice is made after forward 2
    e.check("backward.all_gather.layers.1", 15, 16);
    e.check("backward.reduce_scatter.layers.2", 21, 23);
    e.check("backward.all_gather.layers.0", 21, 22);  // no longer behind that reduce-scatter
    e.check("backward.compute.layers.1", 21, 27);
    CHECK(e.end() == doctest::Approx(36));
  }
  // Half of a block's 41,088 parameters in bf16, three times, from forward to backward.
  Bytes slices = 0;
  for (const Buffer& buffer : schedule.buffers) {
    if (buffer.name.str().rfind("slice.", 0) == 0) slices += buffer.bytes;
  }
  CHECK(slices == 3 * 41'088);
}

TEST_CASE("a group to reshard to that does not divide, or would need a third axis, is refused") {
  TrainingStep step = units(3);
  step.strategy.reshard_group = 3;
  CHECK_THROWS_WITH_AS(build_schedule(step),
                       "reshard_after_forward: 3 is no proper divisor of the 8 GPUs; accepted: "
                       "true, false, or a divisor",
                       InputError);
  step.strategy.kind = StrategyKind::hsdp;
  step.mesh = {2, 4};
  step.strategy.reshard_group = 2;
  CHECK_THROWS_WITH_AS(build_schedule(step),
                       "reshard_after_forward: 2 within hsdp's shard groups of 4 needs a third "
                       "mesh axis, which stepcast does not have; accepted: true, false, 1, 4",
                       InputError);
}

TEST_CASE("torchtitan's embedding is gathered in backward for nothing unless told not to") {
  TrainingStep step = units(3);
  step.strategy.wrap = WrapPolicy::torchtitan;
  CHECK(gathers(build_schedule(step)) == 9);  // 5 units, then all but norm_head
  step.strategy.unshard_embedding_in_backward = false;
  const Schedule schedule = build_schedule(step);
  CHECK(testing::faults(schedule) == "");
  CHECK(gathers(schedule) == 8);
  step.strategy.wrap = WrapPolicy::block;
  CHECK_THROWS_AS(build_schedule(step), InputError);
}

TEST_CASE("the first step makes the optimizer's state: 8 bytes a parameter after its backward") {
  TrainingStep step = units(3);
  step.first_step = true;
  const Schedule schedule = build_schedule(step);
  CHECK(testing::faults(schedule) == "");
  REQUIRE(schedule.roles[0].steps.size() == 2);
  const auto made = [&](std::size_t program) {
    Bytes bytes = 0;
    for (const Op& op : schedule.roles[0].steps[program].ops) {
      if (op.kind != OpKind::alloc) continue;
      const Buffer& buffer = schedule.buffers[static_cast<std::size_t>(op.buffer)];
      if (buffer.kind != BufferKind::optimizer_state) continue;
      CHECK(op.phase == Phase::optimizer);
      CHECK(!buffer.persistent);
      bytes += buffer.bytes;
    }
    return bytes;
  };
  const Bytes parameters = 3 * 41'088 + 2 * 256 * 64 + 64;
  CHECK(made(0) == 8 * parameters / 8);
  CHECK(made(1) == 0);
  CHECK(memory_ledger(schedule).at(0).growth == 0);
}

}  // namespace
}  // namespace stepcast
