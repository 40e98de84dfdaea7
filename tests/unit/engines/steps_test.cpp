// Several steps: waits across the step boundary, hosts that run ahead, and when the run may end.

#include "sim/engines/engine.hpp"
#include "tests/unit/engines/engines_under_test.hpp"
#include "tests/unit/engines/small_program.hpp"

namespace stepcast::testing {
namespace {

TEST_CASE("Steps overlap where nothing orders them, the period is that of the slowest resource") {
  // Compute 3, then all-reduce 5 behind it. Nothing waits for the all-reduce, so compute runs
  // 0-3, 3-6, 6-9 and the all-reduces queue: 3-8, 8-13, 13-18. Step ends 8, 13, 18: period 5.
  SmallProgram p;
  p.wait("nccl", p.compute("forward", "compute", {.solo = 3}));
  p.all_reduce("reduce", "world", "nccl", {.solo = 5});
  in_both_engines([&](Engine& engine) {
    const Timeline timeline = p.run(engine, {.programs = {0, 0, 0}});
    CHECK(p.at(timeline, "forward", 0, 2).start == 6);
    CHECK(timeline.steps[0].end == 8);
    CHECK(timeline.steps[2].begin == 13);
    CHECK(timeline.steps[2].end == 18);
    CHECK(timeline.period() == 5);
  });
}

TEST_CASE("A wait on an op two steps back holds the third step and nothing before it") {
  // As above, but forward waits for the all-reduce two steps back. Forwards: 0-3, 3-6, then 8-11
  // (the first all-reduce ends at 8), 13-16.
  SmallProgram p;
  p.wait("compute", 3, 2);  // op 3 is the all-reduce below
  p.wait("nccl", p.compute("forward", "compute", {.solo = 3}));
  REQUIRE(p.all_reduce("reduce", "world", "nccl", {.solo = 5}) == 3);
  in_both_engines([&](Engine& engine) {
    const Timeline timeline = p.run(engine, {.programs = {0, 0, 0, 0}});
    CHECK(p.at(timeline, "forward", 0, 1).start == 3);
    const Span third = p.at(timeline, "forward", 0, 2);
    CHECK(third.start == 8);
    CHECK(third.bound == Bound::wait);
    CHECK(p.cause(timeline, third) == "reduce");
    CHECK(third.cause_step == 0);
    CHECK(p.at(timeline, "forward", 0, 3).start == 13);
  });
}

TEST_CASE("A host wait across steps bounds how far the host runs ahead") {
  // Issuing costs 1, a kernel 10. Without the wait the host would issue step 2 at 2 to 3; waiting
  // for the kernel of the step before it issues at 0-1, 11-12?, ... : kernel 0 ends at 11, so
  // kernel 1 is issued at 12 and ends at 22, and so on: period 11 instead of 10.
  SmallProgram p;
  p.host_wait(1, 1);
  p.compute("kernel", "compute", {.solo = 10, .host = 1});
  in_both_engines([&](Engine& engine) {
    const Timeline timeline = p.run(engine, {.programs = {0, 0, 0}});
    CHECK(p.at(timeline, "kernel", 0, 1).start == 12);
    CHECK(timeline.period() == 11);
  });
}

TEST_CASE("A wait into an earlier step of another program means the op with the same key") {
  // The steady step waits for the reduce of the step before. In `first` that op stands elsewhere
  // and takes 9, so the first steady step starts at 9; the next one waits for its own kind.
  SmallProgram p;
  p.step("first");
  p.compute("warm_up", "nccl", {.solo = 2});
  p.all_reduce("reduce", "world", "nccl", {.solo = 7});
  p.step("steady");
  p.wait("compute", 2, 1);
  p.compute("forward", "compute", {.solo = 1});
  REQUIRE(p.all_reduce("reduce", "world", "nccl", {.solo = 1}) == 2);
  in_both_engines([&](Engine& engine) {
    const Timeline timeline = p.run(engine, {.programs = {0, 1, 1}});
    CHECK(p.at(timeline, "forward", 0, 1).start == 9);
    CHECK(p.at(timeline, "forward", 0, 2).start == 10);
    CHECK(timeline.steps[0].program == Name("first"));
    CHECK(timeline.steps[1].program == Name("steady"));
  });
}

TEST_CASE("Left to itself a run ends with the second steady step of the same length") {
  // The overlap above: lengths 8, 5, 5.
  SmallProgram p;
  p.wait("nccl", p.compute("forward", "compute", {.solo = 3}));
  p.all_reduce("reduce", "world", "nccl", {.solo = 5});
  in_both_engines([&](Engine& engine) {
    CHECK(p.run(engine, {}).steps.size() == 3);
    CHECK(p.run(engine, {}).period() == 5);
    CHECK(p.run(engine, {.max_steady = 2}).steps.size() == 2);
    CHECK(p.run(engine, {.max_steady = 1}).steps.size() == 1);
  });
}

TEST_CASE("The programs before the steady one run once each and do not count as steady") {
  SmallProgram p;
  p.step("construction");
  p.compute("broadcast", "compute", {.solo = 4});
  p.step("first");
  p.compute("forward", "compute", {.solo = 4});
  p.step("steady");
  p.compute("forward", "compute", {.solo = 4});
  in_both_engines([&](Engine& engine) {
    const Timeline timeline = p.run(engine, {});
    REQUIRE(timeline.steps.size() == 4);
    CHECK(timeline.steps[1].program == Name("first"));
    CHECK(timeline.steps[3].program == Name("steady"));
    CHECK(timeline.steps[3].end == 16);
  });
}

TEST_CASE("A step of host work alone lasts as long as the host") {
  SmallProgram p;
  p.host_work("construct", 3);
  in_both_engines([&](Engine& engine) {
    const Timeline timeline = p.run(engine, {.programs = {0, 0}});
    CHECK(timeline.steps[0].end == 3);
    CHECK(timeline.period() == 3);
  });
}

TEST_CASE("Spans come ordered by step, role and op, one for each op that takes place") {
  SmallProgram p;
  for (const char* role : {"a", "b"}) {
    p.role(role, role[0] - 'a', 1);
    p.step("steady");
    p.lane("main");
    p.wait("nccl", p.compute("forward", "compute", {.solo = 1}));
    p.all_reduce("reduce", "world", "nccl", {.solo = 1});
    p.host_wait(0);
    p.host_work("log", 1);
  }
  in_both_engines([&](Engine& engine) {
    const Timeline timeline = p.run(engine, {.programs = {0, 0}});
    std::vector<std::vector<int>> order;
    for (const Span& span : timeline.spans) order.push_back({span.step, span.role, span.op});
    CHECK(std::is_sorted(order.begin(), order.end()));
    CHECK(order.size() == 2 * 2 * 4);  // all but the stream wait
    CHECK(timeline.engine == engine.name());
  });
}

}  // namespace
}  // namespace stepcast::testing
