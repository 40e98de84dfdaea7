// Memory samples: allocated bytes after each alloc and free, at host time.

#include "sim/engines/engine.hpp"
#include "tests/unit/engines/engines_under_test.hpp"
#include "tests/unit/engines/small_program.hpp"

namespace stepcast::testing {
namespace {

TEST_CASE(
    "Memory counts persistent buffers from the start, allocs and frees in host order, no views") {
  SmallProgram p;
  ScheduleBuilder& b = p.builder();
  const BufferIndex weights = b.persistent("weights", BufferKind::parameter, Dtype::fp32, 1000);
  b.view_of("slice", weights, 0, 600);
  const BufferIndex gathered = b.buffer("gathered", BufferKind::unsharded, Dtype::bf16, 50, 0);
  const BufferIndex part = b.view_of("part", gathered, 10, 20);
  p.compute("issue", "compute", {.solo = 100, .host = 2});
  p.alloc(gathered);
  p.alloc(part);
  p.host_work("hook", 3);
  p.free(gathered);
  in_both_engines([&](Engine& engine) {
    const Timeline timeline = p.run(engine, {.programs = {0, 0}});
    REQUIRE(timeline.memory.size() == 6);
    CHECK(timeline.memory[0].allocated == 1050);
    CHECK(timeline.memory[0].time == 2);  // the host does not wait for the kernel
    CHECK(timeline.memory[1].allocated == 1050);
    CHECK(timeline.memory[2].allocated == 1000);
    CHECK(timeline.memory[2].time == 5);
    CHECK(timeline.memory[3].step == 1);
    CHECK(timeline.memory[3].time == 7);
    CHECK(timeline.memory[5].allocated == 1000);
  });
}

TEST_CASE("A persistent buffer belongs to the roles that touch it, also by a view") {
  SmallProgram p;
  ScheduleBuilder& b = p.builder();
  const BufferIndex moments =
      b.persistent("moments", BufferKind::optimizer_state, Dtype::fp32, 8000);
  const BufferIndex slice = b.view_of("slice", moments, 0, 100);
  b.persistent("untouched", BufferKind::other, Dtype::fp32, 7);
  const BufferIndex work = b.buffer("work", BufferKind::workspace, Dtype::fp32, 1, 0);
  p.role("gpu0", 0, 1);
  p.step("steady");
  p.alloc(work);
  const View view = b.whole(slice);
  p.compute_with_views("adam", "compute", {view});
  p.role("rest", 1, 1);
  p.step("steady");
  p.alloc(work);
  in_both_engines([&](Engine& engine) {
    const Timeline timeline = p.run(engine);
    REQUIRE(timeline.memory.size() == 2);
    CHECK(timeline.memory[0].allocated == 8008);
    CHECK(timeline.memory[1].allocated == 8);
  });
}

TEST_CASE("Memory samples are left out when nobody asks for them") {
  SmallProgram p;
  p.alloc(p.builder().buffer("x", BufferKind::other, Dtype::fp32, 4, 0));
  in_both_engines([&](Engine& engine) {
    CHECK(p.run(engine, {.programs = {0}, .memory = false}).memory.empty());
  });
}

}  // namespace
}  // namespace stepcast::testing
