// The programs before the steady step: construction, and static_graph's two iterations with one
// bucket.

#include <doctest/doctest.h>

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

TEST_CASE("E-4: static_graph reduces 32 MiB twice, rebuilds in the third forward, then 4 + 28") {
  TrainingStep step = eight_layers();
  step.strategy.static_graph = true;
  step.first_step = true;
  const Schedule schedule = build_schedule(step);
  testing::check_sound(schedule);
  const auto reduced = [&](const char* program) {
    return bytes_of_each(ops_of(schedule, program), "all_reduce");
  };
  CHECK(reduced("first") == std::vector<Bytes>{32 * mib});
  CHECK(reduced("second") == std::vector<Bytes>{32 * mib});
  CHECK(reduced("third") == std::vector<Bytes>{4 * mib, 28 * mib});
  CHECK(reduced("steady") == std::vector<Bytes>{4 * mib, 28 * mib});
  CHECK(count_of(ops_of(schedule, "second"), "rebuild_broadcast") == 0);
  CHECK(count_of(ops_of(schedule, "third"), "rebuild_broadcast") == 2);
  // the first iteration: used map of 8 int32, then one copy-in of everything, then the bucket
  CHECK(bytes_of_each(ops_of(schedule, "first"), "used_map") == std::vector<Bytes>{32});
  CHECK(count_of(ops_of(schedule, "first"), "copy_in") == 1);
  CHECK(count_of(ops_of(schedule, "second"), "copy_in") == 8);
  CHECK(count_of(ops_of(schedule, "second"), "used_map") == 0);
}

TEST_CASE("static_graph's first backward is not overlapped at all: 24 to 44 as the default's") {
  TrainingStep step = four_layers();
  step.strategy.static_graph = true;
  step.first_step = true;
  const Schedule schedule = build_schedule(step);
  testing::check_golden(schedule, "ddp-static-graph");
  for (auto& engine : testing::both_engines()) {
    const testing::Events events(
        *engine, schedule,
        [](const Op& op) { return op.verb == Name("used_map") ? 0.0 : four_layer_cost(op); },
        testing::program_named(schedule, "first"));
    events.check("backward.used_map", 24, 24);
    events.check("backward.all_reduce.bucket0", 24, 44);
  }
}

TEST_CASE("construction compares shapes and broadcasts in 250 MiB buckets, two in flight") {
  // 100 MiB fp32 tensors: three close a bucket (300 >= 250), so 7 give 300, 300, 100
  std::vector<Parameter> tensors;
  for (int i = 1; i <= 7; ++i) tensors.push_back({Name("t" + std::to_string(i)), {25 * mib, 1}});
  TrainingStep step = four_layers();
  step.model = model_of_tensors(tensors);
  step.first_step = true;
  const Schedule schedule = build_schedule(step);
  testing::check_sound(schedule);
  const std::vector<Op>& ops = ops_of(schedule, "construction");
  CHECK(bytes_of_each(ops, "broadcast") == std::vector<Bytes>{300 * mib, 300 * mib, 100 * mib});
  CHECK(bytes_of_each(ops, "parameter_count") == std::vector<Bytes>{8 * 8});  // int64 of 8 ranks
  CHECK(bytes_of_each(ops, "shapes") == std::vector<Bytes>{8 * 7 * 4});  // 2 sizes, 2 strides each
  // no more than two flat tensors at once
  Bytes now = 0, most = 0;
  for (const Op& op : ops) {
    if (op.kind != OpKind::alloc && op.kind != OpKind::free) continue;
    const Buffer& buffer = schedule.buffers[static_cast<std::size_t>(op.buffer)];
    if (buffer.name.str().rfind("flat_", 0) != 0) continue;
    now += op.kind == OpKind::alloc ? buffer.bytes : -buffer.bytes;
    most = std::max(most, now);
  }
  CHECK(now == 0);
  CHECK(most == 600 * mib);
}

TEST_CASE("construction's broadcasts: the second starts before the first is copied back") {
  std::vector<Parameter> tensors;
  for (int i = 1; i <= 3; ++i) tensors.push_back({Name("t" + std::to_string(i)), {75 * mib}});
  TrainingStep step = four_layers();
  step.model = model_of_tensors(tensors);
  step.first_step = true;
  const Schedule schedule = build_schedule(step);
  const auto cost = [](const Op& op) {
    if (op.verb == Name("broadcast")) return 10.0;
    if (op.verb == Name("flatten") || op.verb == Name("unflatten")) return 1.0;
    return 0.0;
  };
  for (auto& engine : testing::both_engines()) {
    const testing::Events events(*engine, schedule, cost,
                                 testing::program_named(schedule, "construction"));
    events.check("setup.flatten", 0, 1);
    events.check("setup.flatten#2", 1, 2);
    events.check("setup.broadcast", 1, 11);
    events.check("setup.unflatten", 11, 12);
    events.check("setup.flatten#3", 12, 13);
    events.check("setup.broadcast#2", 11, 21);
    events.check("setup.broadcast#3", 21, 31);
    events.check("setup.unflatten#3", 31, 32);
  }
}

}  // namespace
}  // namespace stepcast
