// A kernel that waits for its peers holds its SMs.

#include <doctest/doctest.h>

#include "sim/engines/engine.hpp"
#include "sim/schedule/builder.hpp"

using namespace stepcast;

namespace {

// Two ranks with a kernel of 2 s on one stream and a collective of 0.5 s on another; rank 0 comes
// to it `late` seconds later, behind a copy. The collective holds `share` of the SMs.
Timeline run(Engine& engine, Seconds late, double share) {
  ScheduleBuilder b("spin", Mesh{2, 1});
  b.lane("main");
  const StreamIndex compute = b.stream("compute");
  const StreamIndex communication = b.stream("communication");
  const CommIndex world = b.communicator("world", Axis::world);
  for (const int rank : {0, 1}) {
    b.role(rank == 0 ? "late" : "early", rank, 1);
    b.step("steady");
    b.at(Phase::backward, b.unit("u"));
    b.compute("copy", communication, {}, {}, {});
    b.collective("all_reduce", CollectiveKind::all_reduce, world, communication, Dtype::fp32, 1,
                 Reduction::sum, {}, {});
    b.compute("kernel", compute, {}, {}, {});
  }
  const Schedule schedule = b.take();
  CostTable costs;
  const ResourceIndex sm = costs.resource("sm");
  const Name hand("by hand");
  const std::int32_t copy = costs.add(late, {}, 0, Provenance::assumed, hand);
  const std::int32_t reduce = costs.add(0.5, {{sm, 0.5 * share}}, 0, Provenance::assumed, hand);
  const std::int32_t kernel = costs.add(2, {{sm, 2}}, 0, Provenance::assumed, hand);
  costs.cost_of = {{{copy, reduce, kernel}}, {{-1, reduce, kernel}}};
  RunOptions options;
  options.programs = {0};
  return engine.run(schedule, costs, options);
}

const Span& span_of(const Timeline& timeline, int role, OpIndex op) {
  for (const Span& span : timeline.spans) {
    if (span.role == role && span.op == op) return span;
  }
  REQUIRE(false);
  return timeline.spans.front();
}

}  // namespace

TEST_CASE("a rank that waits in a collective has that much less for its kernels") {
  // 20 % from 0 to 1, waiting, and to 1.5, reducing: by then 1.2 s of 2 are done, 0.8 s are left.
  // The late rank gives 20 % only from 1 to 1.5: 2.1 s.
  const auto fluid = make_fluid_engine();
  const Timeline timeline = run(*fluid, 1, 0.2);
  CHECK(span_of(timeline, 1, 1).start == doctest::Approx(1));
  CHECK(span_of(timeline, 1, 1).peer_wait == doctest::Approx(1));
  CHECK(span_of(timeline, 1, 1).end == doctest::Approx(1.5));
  CHECK(span_of(timeline, 1, 2).end == doctest::Approx(2.3));
  CHECK(span_of(timeline, 0, 2).end == doctest::Approx(2.1));
}

TEST_CASE("nobody waits, nobody spins, and a collective without SMs takes none") {
  const auto fluid = make_fluid_engine();
  CHECK(span_of(run(*fluid, 0, 0.2), 1, 2).end == doctest::Approx(2.1));
  CHECK(span_of(run(*fluid, 1, 0), 1, 2).end == doctest::Approx(2));
}

TEST_CASE("a rank whose part of a collective is short holds its SMs until the slowest is done") {
  // By itself 0.5 s for one, 1 s for the other: both hold 20 % for 1 s beside 2 s of kernels.
  ScheduleBuilder b("slow link", Mesh{2, 1});
  b.lane("main");
  const StreamIndex compute = b.stream("compute");
  const StreamIndex communication = b.stream("communication");
  const CommIndex world = b.communicator("world", Axis::world);
  for (const int rank : {0, 1}) {
    b.role(rank == 0 ? "slow" : "fast", rank, 1);
    b.step("steady");
    b.at(Phase::backward, b.unit("u"));
    b.collective("all_reduce", CollectiveKind::all_reduce, world, communication, Dtype::fp32, 1,
                 Reduction::sum, {}, {});
    b.compute("kernel", compute, {}, {}, {});
  }
  const Schedule schedule = b.take();
  CostTable costs;
  const ResourceIndex sm = costs.resource("sm");
  const ResourceIndex nic = costs.resource("nic");
  const Name hand("by hand");
  const std::int32_t slow = costs.add(1.0, {{sm, 0.2}, {nic, 1.0}}, 0, Provenance::assumed, hand);
  const std::int32_t fast = costs.add(0.5, {{sm, 0.1}, {nic, 0.5}}, 0, Provenance::assumed, hand);
  const std::int32_t kernel = costs.add(2, {{sm, 2}}, 0, Provenance::assumed, hand);
  costs.cost_of = {{{slow, kernel}}, {{fast, kernel}}};
  const Timeline timeline = make_fluid_engine()->run(schedule, costs, {.programs = {0}});
  CHECK(span_of(timeline, 0, 1).end == doctest::Approx(2.2));
  CHECK(span_of(timeline, 1, 1).end == doctest::Approx(2.2));
}

TEST_CASE("a spin ends with its run: the next one starts clean") {
  const auto fluid = make_fluid_engine();
  for (int i = 0; i < 3; ++i) CHECK(span_of(run(*fluid, 1, 0.2), 1, 2).end == doctest::Approx(2.3));
}
