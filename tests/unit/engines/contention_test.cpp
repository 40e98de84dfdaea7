// What only the fluid engine sees: ops that share a resource. The numbers are worked out beside
// each; the formula engine gives the time alone.

#include <string>

#include "base/error.hpp"
#include "sim/engines/engine.hpp"
#include "tests/unit/engines/engines_under_test.hpp"
#include "tests/unit/engines/small_program.hpp"

namespace stepcast::testing {
namespace {

// `what` ends at `expected`, to a millionth of it.
void ends(SmallProgram& program, const Timeline& timeline, const std::string& what,
          Seconds expected) {
  CAPTURE(what);
  CHECK(program.at(timeline, what).end == doctest::Approx(expected).epsilon(1e-6));
}

TEST_CASE("A GEMM beside a collective that holds 15 % of the SMs ends 15 % later, at any scale") {
  // The collective is at its own pace (its clock), so 85 % are left for 1 unit: 0.85 done; the
  // missing 0.15 then runs alone.
  const auto engine = make_fluid_engine();
  for (const Seconds unit : {1.0, 1e-3, 1e-6}) {
    CAPTURE(unit);
    SmallProgram p;
    p.compute("gemm", "compute", {.solo = unit, .demands = {{"sm", unit}}});
    p.all_reduce("collective", "world", "nccl", {.solo = unit, .demands = {{"sm", 0.15 * unit}}});
    const Timeline timeline = p.run(*engine);
    ends(p, timeline, "collective", unit);
    ends(p, timeline, "gemm", 1.15 * unit);
  }
}

TEST_CASE("Collectives of two communicators share the NIC, those of one communicator queue") {
  const auto engine = make_fluid_engine();
  SUBCASE("both want all of it: each gets half") {
    SmallProgram p;
    p.all_reduce("a", "shard", "s", {.solo = 1, .demands = {{"nic", 1}}});
    p.all_reduce("b", "replicate", "r", {.solo = 1, .demands = {{"nic", 1}}});
    const Timeline timeline = p.run(*engine);
    ends(p, timeline, "a", 2);
    ends(p, timeline, "b", 2);
  }
  SUBCASE("one wants half of it: it is on time, the other does half by then and half alone") {
    SmallProgram p;
    p.all_reduce("a", "shard", "s", {.solo = 1, .demands = {{"nic", 1}}});
    p.all_reduce("b", "replicate", "r", {.solo = 1, .demands = {{"nic", 0.5}}});
    const Timeline timeline = p.run(*engine);
    ends(p, timeline, "b", 1);
    ends(p, timeline, "a", 1.5);
  }
  SUBCASE("one communicator, two streams: one after the other") {
    SmallProgram p;
    p.all_reduce("a", "shard", "s", {.solo = 1, .demands = {{"nic", 1}}});
    p.all_reduce("b", "shard", "r", {.solo = 1, .demands = {{"nic", 1}}});
    const Timeline timeline = p.run(*engine);
    ends(p, timeline, "a", 1);
    CHECK(near(p.at(timeline, "b").start, 1));
    ends(p, timeline, "b", 2);
  }
}

TEST_CASE(
    "More that runs at a time than the engine has tasks for is refused, and the next run goes "
    "well") {
  const auto engine = make_fluid_engine();
  SmallProgram many;
  for (int i = 0; i < 1025; ++i) {
    const std::string number = std::to_string(i);
    many.compute("gemm" + number, "stream" + number, {.solo = 1, .demands = {{"sm", 1}}});
  }
  std::string refusal;
  try {
    many.run(*engine);
  } catch (const InputError& error) {
    refusal = error.what();
  }
  CHECK(refusal ==
        "engine: fluid plays at most 1024 kernels and collectives at a time, and each rank that "
        "differs from all others has its own; accepted: formula, or fewer such ranks");

  SmallProgram p;
  p.all_reduce("a", "shard", "s", {.solo = 1, .demands = {{"nic", 1}}});
  p.all_reduce("b", "replicate", "r", {.solo = 1, .demands = {{"nic", 1}}});
  ends(p, p.run(*engine), "a", 2);
}

TEST_CASE("A latency-bound op of 20 us never runs faster than alone") {
  // It asks the NIC for 0.4 us only; without a clock it would end after that.
  SmallProgram p;
  p.all_reduce("small", "world", "nccl", {.solo = 20e-6, .demands = {{"nic", 0.4e-6}}});
  p.compute("gemm", "compute", {.solo = 1e-3, .demands = {{"sm", 1e-3}}});
  in_both_engines([&](Engine& engine) {
    const Timeline timeline = p.run(engine);
    CHECK(p.at(timeline, "small").end == 20e-6);
    CHECK(p.at(timeline, "gemm").end == 1e-3);
  });
}

TEST_CASE("A GEMM and an elementwise kernel follow one another, also beside a collective") {
  const Cost list{.parts = {{1.0, {{"sm", 1.0}}}, {0.5, {{"hbm", 0.5}}}}};
  SUBCASE("alone: 1.0 + 0.5") {
    SmallProgram p;
    p.compute("kernels", "compute", list);
    in_both_engines([&](Engine& engine) { CHECK(p.at(p.run(engine), "kernels").end == 1.5); });
  }
  SUBCASE("beside 15 % of the SMs for 1: only the GEMM suffers, 1.15 + 0.5") {
    SmallProgram p;
    p.compute("kernels", "compute", list);
    p.all_reduce("collective", "world", "nccl", {.solo = 1, .demands = {{"sm", 0.15}}});
    const Timeline timeline = p.run(*make_fluid_engine());
    ends(p, timeline, "kernels", 1.65);
    ends(p, timeline, "collective", 1);
    const Span span = p.at(timeline, "kernels");
    CHECK(span.solo == 1.5);  // so that end - start - solo is what the interference cost
  }
}

TEST_CASE("The streams of a role share its resources, two roles do not share") {
  SmallProgram p;
  for (const char* role : {"a", "b"}) {
    p.role(role, role[0] - 'a', 1);
    p.step("steady");
    p.compute("gemm", "compute", {.solo = 1, .demands = {{"sm", 1}}});
    if (role[0] == 'a') p.compute("other", "side", {.solo = 1, .demands = {{"sm", 1}}});
  }
  const Timeline timeline = p.run(*make_fluid_engine());
  CHECK(near(p.at(timeline, "gemm", 0).end, 2));
  CHECK(near(p.at(timeline, "other", 0).end, 2));
  CHECK(near(p.at(timeline, "gemm", 1).end, 1));
}

TEST_CASE("A collective moves at the pace of its most contended role") {
  // Role a computes on half of its HBM while the collective wants all of it, role b is idle. By
  // bottleneck fairness both get half of a's HBM for 1 (the GEMM is then done), so half of the
  // collective is left: it ends at 1.5 for both roles.
  SmallProgram p;
  p.role("a", 0, 1);
  p.step("steady");
  p.compute("stream", "compute", {.solo = 1, .demands = {{"hbm", 0.5}}});
  p.all_reduce("together", "world", "nccl", {.solo = 1, .demands = {{"hbm", 1}}});
  p.role("b", 1, 1);
  p.step("steady");
  p.all_reduce("together", "world", "nccl", {.solo = 1, .demands = {{"hbm", 1}}});
  const Timeline timeline = p.run(*make_fluid_engine());
  CHECK(near(p.at(timeline, "stream", 0).end, 1));
  CHECK(near(p.at(timeline, "together", 0).end, 1.5));
  CHECK(near(p.at(timeline, "together", 1).end, 1.5));
}

TEST_CASE("A run does not depend on what ran before it in the process") {
  const auto engine = make_fluid_engine();
  SmallProgram p;
  p.compute("gemm", "compute", {.solo = 3e-4, .demands = {{"sm", 3e-4}}});
  p.compute("next", "compute", {.solo = 1e-5});
  const Timeline first = p.run(*engine);
  SmallProgram longer;
  longer.compute("gemm", "compute", {.solo = 12345.678, .demands = {{"sm", 12345.678}}});
  longer.run(*engine);
  for (int i = 0; i < 1000; ++i) {
    const Timeline again = p.run(*engine);
    REQUIRE(again.spans[1].start == first.spans[1].start);
    REQUIRE(again.spans[1].end == first.spans[1].end);
  }
}

}  // namespace
}  // namespace stepcast::testing
