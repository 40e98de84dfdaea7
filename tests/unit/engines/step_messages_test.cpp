// Steps whose collectives go message by message, worked out by hand.

#include "sim/engines/step_messages.hpp"

#include <doctest/doctest.h>

#include "sim/schedule/builder.hpp"

namespace stepcast::testing {
namespace {

constexpr double us = 1e-6;

// Two ranks, each with a link to the other. A collective of 8 MB goes in four loops of 1 MB
// chunks, two under way: 410 us (messages_test.cpp), and 10 us before its first message.
struct TwoRanks {
  ScheduleBuilder builder{"two ranks", Mesh{2, 1}};
  StreamIndex compute = 0;
  CostTable costs;
  StepMessages messages;
  Name hand{"by hand"};

  TwoRanks() {
    builder.lane("main");
    compute = builder.stream("compute");
    messages.links = {{20}, {20}};
  }

  StepMessages::Carried ring() {
    MessageRing ring;
    ring.chunk_bytes = 1e6;
    ring.window = 2;
    for (const int link : {0, 1}) {
      ring.connections.push_back(static_cast<int>(messages.connections.size()));
      messages.connections.push_back({{link}, 10 * us});
    }
    return {{MessagesOp::all_reduce, 2, 8e6, {ring}, {}}, 10 * us};
  }

  void role(const char* name, int rank) {
    builder.role(name, rank, 1);
    builder.step("steady");
    builder.at(Phase::backward, builder.unit("u"));
    costs.cost_of.push_back({{}});
    messages.of_op.push_back({{}});
  }
  void kernel(StreamIndex stream, std::int32_t cost) {
    builder.compute("kernel", stream, {}, {}, {});
    costs.cost_of.back().back().push_back(cost);
    messages.of_op.back().back().push_back(-1);
  }
  void all_reduce(CommIndex comm, StreamIndex stream, std::int32_t cost, std::int32_t carried) {
    builder.collective("all_reduce", CollectiveKind::all_reduce, comm, stream, Dtype::fp32, 1,
                       Reduction::sum, {}, {});
    costs.cost_of.back().back().push_back(cost);
    messages.of_op.back().back().push_back(carried);
  }
  Timeline run() {
    const Schedule schedule = builder.take();
    return make_messages_engine(messages)->run(schedule, costs, {.programs = {0}});
  }
};

Seconds end_of(const Timeline& timeline, int role, OpIndex op) {
  for (const Span& span : timeline.spans) {
    if (span.role == role && span.op == op) return span.end;
  }
  REQUIRE(false);
  return 0;
}

}  // namespace

TEST_CASE(
    "a collective by messages begins with its last rank and holds SMs until its last message") {
  // Rank 0 comes 100 us late: 100 + 10 + 410. A kernel of 1 ms beside it has four fifths of the
  // SMs: on rank 1 for 520 us, waiting included, on rank 0 for 420 us.
  TwoRanks step;
  const StreamIndex communication = step.builder.stream("communication");
  const CommIndex world = step.builder.communicator("world", Axis::world);
  const ResourceIndex sm = step.costs.resource("sm");
  const std::int32_t late = step.costs.add(100 * us, {}, 0, Provenance::assumed, step.hand);
  const std::int32_t reduce =
      step.costs.add(1.0, {{sm, 0.2}}, 0, Provenance::assumed, step.hand);  // its time is not asked
  const std::int32_t kernel =
      step.costs.add(1000 * us, {{sm, 1000 * us}}, 0, Provenance::assumed, step.hand);
  step.messages.collectives = {step.ring()};
  step.role("late", 0);
  step.kernel(communication, late);
  step.all_reduce(world, communication, reduce, 0);
  step.kernel(step.compute, kernel);
  step.role("early", 1);
  step.kernel(communication, -1);
  step.all_reduce(world, communication, reduce, 0);
  step.kernel(step.compute, kernel);
  CHECK(count_messages(step.messages, 0) == 4 * 2 * 2);
  const Timeline timeline = step.run();
  CHECK(timeline.engine == "messages");
  CHECK(end_of(timeline, 0, 1) == doctest::Approx(520 * us).epsilon(1e-6));
  CHECK(end_of(timeline, 1, 1) == doctest::Approx(520 * us).epsilon(1e-6));
  CHECK(end_of(timeline, 1, 2) == doctest::Approx((1000 + 104) * us).epsilon(1e-6));
  CHECK(end_of(timeline, 0, 2) == doctest::Approx((1000 + 84) * us).epsilon(1e-6));
}

TEST_CASE("collectives of two communicators by messages share the links that both cross") {
  // 16 messages of 50 us a direction, no link ever idle: 800 us, 10 before and 10 behind.
  TwoRanks step;
  const StreamIndex one = step.builder.stream("one"), other = step.builder.stream("other");
  const CommIndex first = step.builder.communicator("first", Axis::world);
  const CommIndex second = step.builder.communicator("second", Axis::world);
  const std::int32_t cost = step.costs.add(1.0, {}, 0, Provenance::assumed, step.hand);
  step.messages.collectives.push_back(step.ring());
  step.messages.collectives.push_back(step.ring());
  for (const int rank : {0, 1}) {
    step.role(rank == 0 ? "a" : "b", rank);
    step.all_reduce(first, one, cost, 0);
    step.all_reduce(second, other, cost, 1);
  }
  const Timeline timeline = step.run();
  CHECK(end_of(timeline, 0, 0) == doctest::Approx(820 * us).epsilon(0.01));
  CHECK(end_of(timeline, 1, 1) == doctest::Approx(820 * us).epsilon(0.01));
}

TEST_CASE("a rank that never comes to a collective by messages is named, from the other process") {
  TwoRanks step;
  const CommIndex world = step.builder.communicator("world", Axis::world);
  const std::int32_t cost = step.costs.add(1.0, {}, 0, Provenance::assumed, step.hand);
  step.messages.collectives.push_back(step.ring());
  step.role("there", 0);
  step.all_reduce(world, step.compute, cost, 0);
  step.role("missing", 1);
  try {
    step.run();
    CHECK(false);
  } catch (const Deadlock& deadlock) {
    REQUIRE(deadlock.stalls.size() == 2);
    CHECK(deadlock.stalls[0].op == 0);
    CHECK(deadlock.stalls[0].missing == std::vector<int>{1});
  }
}

}  // namespace stepcast::testing
