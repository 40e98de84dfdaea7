// A role that begins a step late, and what a deadlock says in numbers.

#include "tests/unit/engines/engines_under_test.hpp"
#include "tests/unit/engines/small_program.hpp"

namespace stepcast::testing {
namespace {

TEST_CASE("A delay holds the lane of the first op of its step, and that step only") {
  // Kernels of 2 s with a host wait behind: 0-2, then 3 s late 5-7, then 7-9.
  SmallProgram p;
  p.host_wait(p.compute("work", "compute", {.solo = 2}));
  in_both_engines([&](Engine& engine) {
    RunOptions options{.programs = {0, 0, 0}};
    options.delays = {{0, 1, 3.0}};
    const Timeline timeline = p.run(engine, options);
    REQUIRE(timeline.steps.size() == 3);
    CHECK(timeline.steps[0].end == 2);
    CHECK(timeline.steps[1].end == 7);
    CHECK(timeline.steps[2].end == 9);
  });
}

TEST_CASE("A span says how long its role waited for its peers") {
  // a comes at 3, b 4 s late at 4 + 5 = 9; the reduce is 9-11.
  SmallProgram p;
  for (const char* role : {"a", "b"}) {
    p.role(role, role[0] - 'a', 1);
    p.step("steady");
    p.compute("work", "nccl", {.solo = role[0] == 'a' ? 3.0 : 5.0});
    p.all_reduce("reduce", "world", "nccl", {.solo = 2});
  }
  in_both_engines([&](Engine& engine) {
    RunOptions options{.programs = {0}};
    options.delays = {{1, 0, 4.0}};
    const Timeline timeline = p.run(engine, options);
    CHECK(p.at(timeline, "reduce", 0).end == 11);
    CHECK(p.at(timeline, "reduce", 0).peer_wait == 6);
    CHECK(p.at(timeline, "reduce", 1).peer_wait == 0);
  });
}

TEST_CASE("A deadlock names each role's collective, since when it stands there, and for whom") {
  SmallProgram p(Mesh{3, 1});
  p.role("a", 0, 1);
  p.step("steady");
  p.compute("work", "nccl", {.solo = 3});
  p.all_reduce("reduce", "world", "nccl", {.solo = 2});
  p.role("b", 1, 1);
  p.step("steady");
  p.all_reduce("reduce", "world", "nccl", {.solo = 2});
  p.role("gone", 2, 1);
  p.step("steady");
  in_both_engines([&](Engine& engine) {
    bool thrown = false;
    try {
      p.run(engine, {.programs = {0}});
    } catch (const Deadlock& deadlock) {
      thrown = true;
      REQUIRE(deadlock.stalls.size() == 3);
      CHECK(deadlock.stalls[0].op == 1);
      CHECK(deadlock.stalls[0].since == 3);
      CHECK(deadlock.stalls[0].missing == std::vector<int>{2});
      CHECK(deadlock.stalls[1].op == 0);
      CHECK(deadlock.stalls[1].since == 0);
      CHECK(deadlock.stalls[2].op == -1);
    }
    CHECK(thrown);
  });
}

}  // namespace
}  // namespace stepcast::testing
