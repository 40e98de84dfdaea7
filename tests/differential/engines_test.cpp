// Plays the engines against each other on random schedules:
//   list walk = ready queue = SimGrid          where nothing contends, one role
//   ready queue = SimGrid = fixpoint           where nothing contends, several roles
//   SimGrid >= formula, op by op               where resources are shared
//   formula is monotone                        when an op takes longer
// The seed of a failure is printed; the schedules are the same on every machine.

#include <doctest/doctest.h>

#include <cmath>

#include "sim/engines/engine.hpp"
#include "sim/engines/list_walk.hpp"
#include "sim/engines/ready_queue.hpp"
#include "tests/differential/fixpoint.hpp"
#include "tests/differential/random_program.hpp"

namespace stepcast::testing {
namespace {

const RunOptions three_steps{.programs = {0, 1, 1}};

bool close(Seconds a, Seconds b) { return std::abs(a - b) <= 1e-6 * std::max(a, b); }

// Every span of both, the same op by op; stops at the first difference.
void check_equal(const Timeline& a, const Timeline& b) {
  REQUIRE(a.spans.size() == b.spans.size());
  for (std::size_t i = 0; i < a.spans.size(); ++i) {
    const Span& x = a.spans[i];
    const Span& y = b.spans[i];
    CAPTURE(i);
    REQUIRE(x.role == y.role);
    REQUIRE(x.step == y.step);
    REQUIRE(x.op == y.op);
    REQUIRE(close(x.issued, y.issued));
    REQUIRE(close(x.start, y.start));
    REQUIRE(close(x.end, y.end));
    REQUIRE(close(x.solo, y.solo));
    REQUIRE(x.bound == y.bound);
    REQUIRE(x.cause == y.cause);
    REQUIRE(x.cause_step == y.cause_step);
  }
  REQUIRE(a.steps.size() == b.steps.size());
  for (std::size_t i = 0; i < a.steps.size(); ++i) {
    REQUIRE(a.steps[i].program_index == b.steps[i].program_index);
    REQUIRE(close(a.steps[i].begin, b.steps[i].begin));
    REQUIRE(close(a.steps[i].end, b.steps[i].end));
  }
}

TEST_CASE("One role, nothing shared: list walk, ready queue and SimGrid agree on every span") {
  const auto fluid = make_fluid_engine();
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    CAPTURE(seed);
    const RandomProgram p = random_program(seed, {.ops = 20 + static_cast<int>(seed % 60)});
    RunPlan walk_plan(p.schedule, p.costs, three_steps);
    RunPlan queue_plan(p.schedule, p.costs, three_steps);
    const Timeline walked = list_walk(walk_plan);
    check_equal(walked, formula_queue(queue_plan));
    check_equal(walked, fluid->run(p.schedule, p.costs, three_steps));
  }
}

TEST_CASE("Several roles, nothing shared: formula, SimGrid and the fixpoint agree on every span") {
  const auto formula = make_formula_engine();
  const auto fluid = make_fluid_engine();
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    CAPTURE(seed);
    const RandomProgram p =
        random_program(seed, {.roles = 2 + static_cast<int>(seed % 3), .ops = 40});
    const Timeline timeline = formula->run(p.schedule, p.costs, three_steps);
    check_equal(timeline, fluid->run(p.schedule, p.costs, three_steps));
    const OpTimes expected = fixpoint(p.schedule, p.costs, three_steps.programs);
    for (const Span& span : timeline.spans) {
      const OpTime& of =
          expected[static_cast<std::size_t>(span.role)][static_cast<std::size_t>(span.step)]
                  [static_cast<std::size_t>(span.op)];
      CAPTURE(span.role);
      CAPTURE(span.step);
      CAPTURE(span.op);
      REQUIRE(close(span.end, of.end));
      const auto program =
          static_cast<std::size_t>(three_steps.programs[static_cast<std::size_t>(span.step)]);
      const Op& op = p.schedule.roles[static_cast<std::size_t>(span.role)]
                         .steps[program]
                         .ops[static_cast<std::size_t>(span.op)];
      if (op.stream >= 0) REQUIRE(close(span.start, of.start));
    }
  }
}

TEST_CASE("Lanes that share a lock: formula and SimGrid agree on every span") {
  const auto formula = make_formula_engine();
  const auto fluid = make_fluid_engine();
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    CAPTURE(seed);
    const RandomProgram p =
        random_program(seed, {.roles = 1 + static_cast<int>(seed % 3), .ops = 40, .locks = true});
    check_equal(formula->run(p.schedule, p.costs, three_steps),
                fluid->run(p.schedule, p.costs, three_steps));
  }
}

TEST_CASE("Shared resources: no op ends earlier in SimGrid than by the formula") {
  const auto formula = make_formula_engine();
  const auto fluid = make_fluid_engine();
  int slower = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    CAPTURE(seed);
    const RandomProgram p =
        random_program(seed, {.roles = 1 + static_cast<int>(seed % 3), .ops = 40, .demands = true});
    const Timeline alone = formula->run(p.schedule, p.costs, three_steps);
    const Timeline shared = fluid->run(p.schedule, p.costs, three_steps);
    REQUIRE(alone.spans.size() == shared.spans.size());
    for (std::size_t i = 0; i < alone.spans.size(); ++i) {
      CAPTURE(i);
      REQUIRE(shared.spans[i].end >= alone.spans[i].end * (1 - 1e-9));
      REQUIRE(shared.spans[i].end - shared.spans[i].start >= shared.spans[i].solo * (1 - 1e-9));
    }
    if (shared.steps.back().end > alone.steps.back().end * 1.001) ++slower;
  }
  CHECK(slower > 100);  // the test would be idle if nothing ever contended
}

TEST_CASE("Shared resources: no resource of a role gives more than its time") {
  // What all ops ask of a resource together cannot be served before that many seconds have passed.
  const auto fluid = make_fluid_engine();
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    CAPTURE(seed);
    const RandomProgram p = random_program(seed, {.ops = 40, .demands = true});
    const Timeline timeline = fluid->run(p.schedule, p.costs, three_steps);
    std::vector<Seconds> asked(p.costs.resources.size(), 0.0);
    Seconds end = 0;
    for (const Span& span : timeline.spans) {
      end = std::max(end, span.end);
      const auto step = static_cast<std::size_t>(span.step);
      const OpCost& cost = p.costs.cost(span.role, three_steps.programs[step], span.op);
      for (const Segment& segment : p.costs.segments_of(cost)) {
        for (const Demand& demand : p.costs.demands_of(segment)) {
          asked[static_cast<std::size_t>(demand.resource)] += demand.seconds;
        }
      }
    }
    for (const Seconds seconds : asked) REQUIRE(seconds <= end * (1 + 1e-9));
  }
}

TEST_CASE("Formula: when an op takes longer, nothing ends earlier") {
  const auto formula = make_formula_engine();
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    CAPTURE(seed);
    RandomProgram p = random_program(seed, {.roles = 1 + static_cast<int>(seed % 2), .ops = 40});
    const Timeline before = formula->run(p.schedule, p.costs, three_steps);
    // Some op that runs; 2 ms is more than any role of a collective takes.
    std::size_t longer = seed * 7 % p.costs.costs.size();
    while (p.costs.costs[longer].segments.count == 0) longer = (longer + 1) % p.costs.costs.size();
    OpCost& cost = p.costs.costs[longer];
    p.costs.segments[static_cast<std::size_t>(cost.segments.first)].solo += 2e-3;
    cost.solo += 2e-3;
    const Timeline after = formula->run(p.schedule, p.costs, three_steps);
    bool moved = false;
    for (std::size_t i = 0; i < before.spans.size(); ++i) {
      CAPTURE(i);
      REQUIRE(after.spans[i].end >= before.spans[i].end * (1 - 1e-12));
      moved = moved || after.spans[i].end > before.spans[i].end;
    }
    REQUIRE(moved);
  }
}

}  // namespace
}  // namespace stepcast::testing
