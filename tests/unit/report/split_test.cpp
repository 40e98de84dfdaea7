// Where the step went, against hand answers.
#include <doctest/doctest.h>

#include "sim/report/summary.hpp"
#include "tests/unit/report/small_step.hpp"

using namespace stepcast;

namespace {

Seconds exposed(const TimeSplit& split, const std::string& cause) {
  for (const ExposedPart& part : split.exposed) {
    if (part.cause == cause) return part.seconds;
  }
  return 0;
}

}  // namespace

TEST_CASE("the split of a small step is the one worked out by hand and adds up to the step") {
  const Schedule schedule = small_step();
  const CostTable costs = small_step_costs(schedule);
  const Timeline timeline = run_once(schedule, costs);
  REQUIRE(timeline.period() == doctest::Approx(18));
  const TimeSplit split = split_time(schedule, costs, timeline, Provenance::measured);
  CHECK(split.compute == doctest::Approx(12));
  CHECK(split.optimizer == doctest::Approx(1));
  CHECK(exposed(split, "first_all_gather") == doctest::Approx(2));
  CHECK(exposed(split, "forward_all_gather") == doctest::Approx(1));
  CHECK(exposed(split, "tail_reduce_scatter") == doctest::Approx(2));
  CHECK(split.exposed.size() == 3);
  CHECK(split.exposed.front().seconds >= split.exposed.back().seconds);
  CHECK(split.copies == 0);
  CHECK(split.host == 0);
  CHECK(split.other == 0);
  CHECK(split.interference == doctest::Approx(0));
  CHECK(split.total() == doctest::Approx(18));
  // costs_by labels everything "assumed".
  CHECK(split.by_provenance[static_cast<std::size_t>(Provenance::assumed)] == doctest::Approx(18));
}

TEST_CASE("a kernel that takes longer than alone is interference, and the rest moves along") {
  const Schedule schedule = small_step();
  const CostTable costs = small_step_costs(schedule);
  Timeline timeline = run_once(schedule, costs);
  // The backward (6 alone) takes 8: what follows it shifts by 2.
  for (Span& span : timeline.spans) {
    if (span.start > 14.9) {
      span.start += 2;
      span.end += 2;
    } else if (span.end > 14.9) {
      span.end += 2;
    }
  }
  timeline.steps.back().end += 2;
  const TimeSplit split = split_time(schedule, costs, timeline, Provenance::measured);
  CHECK(split.interference == doctest::Approx(2));
  CHECK(split.compute == doctest::Approx(12));
  CHECK(split.total() == doctest::Approx(20));
}

TEST_CASE("what ran is split by the profile's rates, in the proportion that was bound") {
  const Schedule schedule = small_step();
  CostTable costs = small_step_costs(schedule);
  for (OpCost& cost : costs.costs) {
    cost.by_rate[static_cast<std::size_t>(Rate::gemm)] = 3;
    cost.by_rate[static_cast<std::size_t>(Rate::memory)] = 1;
  }
  const TimeSplit split =
      split_time(schedule, costs, run_once(schedule, costs), Provenance::measured);
  // 12 s of compute and 1 of the optimizer; collectives have no such rate.
  CHECK(split.by_rate[static_cast<std::size_t>(Rate::gemm)] == doctest::Approx(0.75 * 13));
  CHECK(split.by_rate[static_cast<std::size_t>(Rate::memory)] == doctest::Approx(0.25 * 13));
}

TEST_CASE("a stream that is empty because the host issues late is host time") {
  const Schedule schedule = small_step();
  CostTable costs = small_step_costs(schedule);
  for (OpCost& cost : costs.costs) cost.host = 5;  // eight ops of the host, 5 s each
  const Timeline timeline = run_once(schedule, costs);
  const TimeSplit split = split_time(schedule, costs, timeline, Provenance::modelled);
  // Issued at 5, 10, ..., 35: AG0 5-7, AG1 10-14, F0 15-18, F1 20-23, B 25-31, RS 31-33, opt 35-36.
  CHECK(timeline.period() == doctest::Approx(36));
  CHECK(split.compute == doctest::Approx(12));
  CHECK(split.optimizer == doctest::Approx(1));
  // Before F0 the host alone is late: 15. Then 2, 2; before the optimizer RS (31-33), then 2.
  CHECK(split.host + split.exposed_total() == doctest::Approx(23));
  CHECK(split.host == doctest::Approx(23));
  CHECK(split.total() == doctest::Approx(36));
  CHECK(split.by_provenance[static_cast<std::size_t>(Provenance::modelled)] == doctest::Approx(23));
}

TEST_CASE("what the host waits for is exposed where it is a collective, host where it was late") {
  // The host issues late ops 2 after it could. Hand answers:
  //   compute  B 0-7                     opt 16-17
  //   nccl           AR 9-14                        issued at 9: the host came to it at 7
  //   host     wait 0-7, 2, wait 9-14, 2
  // The gap 7-16 is 2 of host, 5 of all-reduce, 2 of host.
  ScheduleBuilder b("waits", Mesh{8, 1});
  b.lane("main");
  const StreamIndex compute = b.stream("compute");
  const StreamIndex nccl = b.stream("nccl");
  const CommIndex world = b.communicator("world", Axis::world);
  b.role("all", 0, 8);
  b.step("steady");
  b.at(Phase::backward, b.unit("u0"));
  b.compute("compute", compute, {}, {}, {});
  b.host_wait_stream(compute);
  b.collective("all_reduce", CollectiveKind::all_reduce, world, nccl, Dtype::fp32, 10,
               Reduction::sum, {}, {});
  b.host_wait_device();
  b.at(Phase::optimizer);
  b.compute("adamw", compute, {}, {}, {});
  const Schedule schedule = b.take();
  CostTable costs = costs_by(schedule, [](const Op& op) {
    return op.kind == OpKind::collective ? 5.0 : op.phase == Phase::optimizer ? 1.0 : 7.0;
  });
  for (OpCost& cost : costs.costs) cost.host = cost.solo == 5 || cost.solo == 1 ? 2 : 0;
  const Timeline timeline = run_once(schedule, costs);
  REQUIRE(timeline.period() == doctest::Approx(17));
  const TimeSplit split = split_time(schedule, costs, timeline, Provenance::assumed);
  CHECK(split.compute == doctest::Approx(7));
  CHECK(split.optimizer == doctest::Approx(1));
  CHECK(exposed(split, "tail_all_reduce") == doctest::Approx(5));
  CHECK(split.host == doctest::Approx(4));
  CHECK(split.other == 0);
  CHECK(split.total() == doctest::Approx(17));
}

TEST_CASE("an op of many launches that the host cannot keep up with is host time") {
  ScheduleBuilder b("launches", Mesh{1, 1});
  b.lane("main");
  const StreamIndex compute = b.stream("compute");
  b.role("all", 0, 1);
  b.step("steady");
  b.at(Phase::forward, b.unit("u0"));
  const Kernel kernel = memory_bound("k", Dtype::bf16, 1, 1, 10);
  b.compute("compute", compute, b.kernels(std::span<const Kernel>(&kernel, 1)), {}, {});
  const Schedule schedule = b.take();
  CostTable costs = costs_by(schedule, [](const Op&) { return 5.0; });
  for (OpCost& cost : costs.costs) cost.host = 20;
  // Ten launches of 2 s: the first at 2, the last at 20, and its 0.5 s of work: ends at 20.5.
  const Timeline timeline = run_once(schedule, costs);
  REQUIRE(timeline.period() == doctest::Approx(20.5));
  const TimeSplit split = split_time(schedule, costs, timeline, Provenance::assumed);
  CHECK(split.compute == doctest::Approx(5));
  CHECK(split.host == doctest::Approx(15.5));
  CHECK(split.interference == doctest::Approx(0));
}

TEST_CASE("a copy beside a collective is booked with the collective") {
  ScheduleBuilder b("side", Mesh{1, 8});
  b.lane("main");
  const StreamIndex compute = b.stream("compute");
  const StreamIndex copy_in = b.stream("all_gather_copy_in");
  const StreamIndex gather = b.stream("all_gather");
  const CommIndex shard = b.communicator("shard", Axis::shard);
  b.role("all", 0, 8);
  b.step("steady");
  b.at(Phase::forward, b.unit("u0"));
  const OpIndex copied = b.compute("copy_in", copy_in, {}, {}, {});
  b.stream_wait(gather, copied);
  const OpIndex ag = b.collective("all_gather", CollectiveKind::all_gather, shard, gather,
                                  Dtype::bf16, 10, Reduction::none, {}, {});
  const OpIndex finished = b.compute("cast", gather, {}, {}, {});
  b.stream_wait(compute, finished);
  b.compute("copy_out", compute, {}, {}, {});
  b.compute("compute", compute, {}, {}, {});
  const Schedule schedule = b.take();
  (void)ag;
  // copy_in 1, all-gather 4, cast 2, copy_out 3, compute 10: the first 7 are the gather's.
  static const Name copy_in_verb("copy_in"), cast("cast"), copy_out("copy_out");
  const CostTable costs = costs_by(schedule, [](const Op& op) {
    if (op.kind == OpKind::collective) return 4.0;
    return op.verb == copy_in_verb ? 1.0 : op.verb == cast ? 2.0 : op.verb == copy_out ? 3.0 : 10.0;
  });
  const Timeline timeline = run_once(schedule, costs);
  const TimeSplit split = split_time(schedule, costs, timeline, Provenance::assumed);
  CHECK(exposed(split, "first_all_gather") == doctest::Approx(7));
  CHECK(split.copies == doctest::Approx(3));
  CHECK(split.compute == doctest::Approx(10));
  CHECK(split.total() == doctest::Approx(20));
}

TEST_CASE("what runs after the last op of the compute stream is the tail") {
  ScheduleBuilder b("tail", Mesh{8, 1});
  b.lane("main");
  const StreamIndex compute = b.stream("compute");
  const StreamIndex nccl = b.stream("nccl");
  const CommIndex world = b.communicator("world", Axis::world);
  b.role("all", 0, 8);
  b.step("steady");
  b.at(Phase::backward, b.unit("u0"));
  const OpIndex backward = b.compute("compute", compute, {}, {}, {});
  b.stream_wait(nccl, backward);
  b.collective("all_reduce", CollectiveKind::all_reduce, world, nccl, Dtype::fp32, 10,
               Reduction::sum, {}, {});
  const Schedule schedule = b.take();
  const CostTable costs =
      costs_by(schedule, [](const Op& op) { return op.kind == OpKind::collective ? 5.0 : 7.0; });
  const TimeSplit split =
      split_time(schedule, costs, run_once(schedule, costs), Provenance::assumed);
  CHECK(exposed(split, "tail_all_reduce") == doctest::Approx(5));
  CHECK(split.total() == doctest::Approx(12));
}

TEST_CASE("a collective on the compute stream itself is exposed, not optimizer or copies") {
  // forward 3, all-reduce 5 on the compute stream, adamw 1, all-gather 2 in the step: 11
  ScheduleBuilder b("inline", Mesh{8, 1});
  b.lane("main");
  const StreamIndex compute = b.stream("compute");
  const CommIndex world = b.communicator("world", Axis::world);
  b.role("all", 0, 8);
  b.step("steady");
  b.at(Phase::forward, b.unit("u"));
  b.compute("compute", compute, {}, {}, {});
  b.at(Phase::backward, b.unit("u"));
  b.collective("all_reduce", CollectiveKind::all_reduce, world, compute, Dtype::bf16, 10,
               Reduction::sum, {}, {});
  b.at(Phase::optimizer);
  b.compute("adamw", compute, {}, {}, {});
  b.collective("all_gather", CollectiveKind::all_gather, world, compute, Dtype::bf16, 10,
               Reduction::none, {}, {});
  const Schedule schedule = b.take();
  const CostTable costs = costs_by(schedule, [](const Op& op) {
    if (op.kind != OpKind::collective) return op.phase == Phase::forward ? 3.0 : 1.0;
    return op.collective == CollectiveKind::all_reduce ? 5.0 : 2.0;
  });
  const TimeSplit split =
      split_time(schedule, costs, run_once(schedule, costs), Provenance::measured);
  CHECK(split.compute == doctest::Approx(3));
  CHECK(split.optimizer == doctest::Approx(1));
  CHECK(exposed(split, "unhidden_all_reduce") == doctest::Approx(5));
  CHECK(exposed(split, "step_all_gather") == doctest::Approx(2));
  CHECK(split.copies == 0);
  CHECK(split.total() == doctest::Approx(11));
}
