// The critical path of small steps, by hand.
#include "sim/explain/critical_path.hpp"

#include <doctest/doctest.h>

#include "sim/forecast/forecast.hpp"
#include "tests/unit/report/small_step.hpp"

using namespace stepcast;

namespace {

void check_whole(const CriticalPath& path) {
  REQUIRE_FALSE(path.parts.empty());
  CHECK(path.parts.front().start == doctest::Approx(0));
  CHECK(path.parts.back().end == doctest::Approx(path.period));
  for (std::size_t i = 1; i < path.parts.size(); ++i) {
    CHECK(path.parts[i].start == doctest::Approx(path.parts[i - 1].end));
  }
}

}  // namespace

TEST_CASE("the path of the small step leaves out the forward that hides behind a gather") {
  const Schedule schedule = small_step();
  const CostTable costs = small_step_costs(schedule);
  const CriticalPath path = critical_path(schedule, costs, run_once(schedule, costs));
  check_whole(path);
  CHECK(path.period == doctest::Approx(18));
  // AG0 2, AG1 4, F1 3, B 6, RS 2, optimizer 1.
  REQUIRE(path.parts.size() == 6);
  CHECK(path.parts[0].op == "forward.all_gather.u0");
  CHECK(path.parts[1].op == "forward.all_gather.u1");
  CHECK(path.parts[2].op == "forward.compute.u1");
  CHECK(path.parts[2].bound == Bound::wait);
  CHECK(path.parts[2].bound_by == "forward.all_gather.u1");
  CHECK(path.parts[3].op == "backward.compute.u1");
  CHECK(path.parts[4].stream == "reduce_scatter");
  CHECK(path.parts[5].kind == PathKind::optimizer);
  CHECK(path.of(PathKind::collective) == doctest::Approx(8));
  CHECK(path.of(PathKind::compute) == doctest::Approx(9));
  CHECK(path.of(PathKind::optimizer) == doctest::Approx(1));
  CHECK(path.of(PathKind::host) == 0);
  // The two gathers are one run, the two kernels another.
  const std::vector<PathRun> runs = runs_of(path);
  REQUIRE(runs.size() == 4);
  CHECK(runs[0].ops == 2);
  CHECK(runs[0].seconds == doctest::Approx(6));
  CHECK(runs[1].last.op == "backward.compute.u1");
}

TEST_CASE("a host that issues late is on the path, back to the beginning") {
  const Schedule schedule = small_step();
  CostTable costs = small_step_costs(schedule);
  for (OpCost& cost : costs.costs) cost.host = 5;  // seven ops are issued at 5, 10, ..., 35
  const CriticalPath path = critical_path(schedule, costs, run_once(schedule, costs));
  check_whole(path);
  CHECK(path.period == doctest::Approx(36));
  // The optimizer is issued at 35 and takes 1.
  CHECK(path.of(PathKind::host) == doctest::Approx(35));
  CHECK(path.of(PathKind::optimizer) == doctest::Approx(1));
}

TEST_CASE("what the host waited for is on the path in place of the wait") {
  // compute B 0-7; the host waits for it, issues AR 2 later: 9-14; waits, 2 later the optimizer:
  // 16-17.
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
  const CriticalPath path = critical_path(schedule, costs, run_once(schedule, costs));
  check_whole(path);
  CHECK(path.of(PathKind::compute) == doctest::Approx(7));
  CHECK(path.of(PathKind::host) == doctest::Approx(4));
  CHECK(path.of(PathKind::collective) == doctest::Approx(5));
  CHECK(path.of(PathKind::optimizer) == doctest::Approx(1));
}

TEST_CASE("the path of every strategy reaches from end to beginning without a hole") {
  for (const char* strategy : {"ddp", "zero1", "zero2", "zero3", "fsdp1", "fsdp2", "hsdp", "dp"}) {
    CAPTURE(strategy);
    const bool one = strategy == std::string("dp");
    const Forecast f = forecast(
        parse_scenario(std::string("model = \"gpt2\"\ncluster = \"dgx-a100\"\nseq_len = 512\n") +
                           (one ? "" : "nodes = 2\n") + "strategy = \"" + strategy + "\"\n",
                       "test"));
    const CriticalPath path = critical_path(f.schedule, f.costs, f.timeline);
    CHECK(path.period == doctest::Approx(f.report.step_time));
    check_whole(path);
  }
}
