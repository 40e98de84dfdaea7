#include "sim/engines/cost_table.hpp"

#include <limits>

#include "sim/engines/engine.hpp"
#include "tests/unit/engines/engines_under_test.hpp"
#include "tests/unit/engines/small_program.hpp"

namespace stepcast::testing {
namespace {

Schedule one_op() {
  ScheduleBuilder b("one", Mesh{1, 1});
  const StreamIndex compute = b.stream("compute");
  b.role("all", 0, 1);
  b.step("steady");
  b.compute("work", compute, {}, {}, {});
  return b.take();
}

CostTable table(Seconds solo, Seconds demand, Seconds host) {
  CostTable costs;
  const ResourceIndex sm = costs.resource("sm");
  costs.cost_of = {{{costs.add(solo, {{sm, demand}}, host, Provenance::assumed, "work")}}};
  return costs;
}

TEST_CASE("A resource is added once and found by name after") {
  CostTable costs;
  CHECK(costs.resource("sm") == 0);
  CHECK(costs.resource("nic") == 1);
  CHECK(costs.resource("sm") == 0);
  CHECK(costs.resources.size() == 2);
}

TEST_CASE("A cost added in one call has one segment with its demands") {
  const CostTable costs = table(2, 1, 0.5);
  const OpCost& cost = costs.cost(0, 0, 0);
  CHECK(cost.solo == 2);
  CHECK(cost.host == 0.5);
  REQUIRE(cost.segments.count == 1);
  CHECK(costs.segments[0].demands.count == 1);
  CHECK(costs.demands[0].seconds == 1);
  CostTable nothing = costs;
  nothing.cost_of[0][0][0] = -1;
  CHECK(nothing.cost(0, 0, 0).solo == 0);
}

TEST_CASE("A table is refused when seconds are negative, not finite or more than the time alone") {
  const Schedule schedule = one_op();
  const double infinite = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK_NOTHROW(check(table(2, 2, 0), schedule));
  CHECK_THROWS_AS(check(table(-1, 0, 0), schedule), std::logic_error);
  CHECK_THROWS_AS(check(table(infinite, 0, 0), schedule), std::logic_error);
  CHECK_THROWS_AS(check(table(nan, 0, 0), schedule), std::logic_error);
  CHECK_THROWS_AS(check(table(1, 1.01, 0), schedule), std::logic_error);
  CHECK_THROWS_AS(check(table(1, -1, 0), schedule), std::logic_error);
  CHECK_THROWS_AS(check(table(1, 1, -1), schedule), std::logic_error);
  CostTable wrong_sum = table(1, 1, 0);
  wrong_sum.costs[0].solo = 3;
  CHECK_THROWS_AS(check(wrong_sum, schedule), std::logic_error);
}

TEST_CASE("A table of another schedule is refused by both engines") {
  const Schedule schedule = one_op();
  CostTable longer = table(1, 1, 0);
  longer.cost_of[0][0].push_back(0);
  CostTable elsewhere = table(1, 1, 0);
  elsewhere.cost_of[0][0][0] = 1;
  in_both_engines([&](Engine& engine) {
    CHECK_THROWS_AS(engine.run(schedule, longer), std::logic_error);
    CHECK_THROWS_AS(engine.run(schedule, elsewhere), std::logic_error);
    CHECK_THROWS_AS(engine.run(schedule, CostTable{}), std::logic_error);
    CHECK_THROWS_AS(engine.run(schedule, table(1, 1, 0), {.programs = {1}}), std::logic_error);
  });
}

TEST_CASE("costs_by gives each op on a stream its seconds and nothing else") {
  SmallProgram p;
  p.wait("nccl", p.compute("forward", "compute", {}));
  p.all_reduce("reduce", "world", "nccl", {});
  p.host_wait(0);
  const CostTable costs = costs_by(
      p.schedule(), [](const Op& op) -> Seconds { return op.kind == OpKind::collective ? 5 : 3; });
  CHECK(costs.cost(0, 0, 0).solo == 3);
  CHECK(costs.cost_of[0][0][1] == -1);
  CHECK(costs.cost(0, 0, 2).solo == 5);
  CHECK(costs.cost_of[0][0][3] == -1);
}

}  // namespace
}  // namespace stepcast::testing
