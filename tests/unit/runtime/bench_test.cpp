// Benches are sound schedules, and their timelines are read as repetitions.
#include "runtime/calibrate/bench.hpp"

#include <doctest/doctest.h>

#include "runtime/cpu/executor.hpp"
#include "runtime/real_replay.hpp"
#include "sim/schedule/problems.hpp"

using namespace stepcast;
using namespace stepcast::runtime;

namespace {

constexpr Mesh two_by_two{2, 2};
const Kernel small = memory_bound("small", Dtype::fp32, 4, 4);

Timeline run(const Schedule& schedule, int steps, Seconds op_seconds = 0) {
  RealReplay work(schedule, timed(schedule, op_seconds));
  ExecuteOptions how;
  how.steps = steps;
  return execute(schedule, work, how).timeline;
}

}  // namespace

TEST_CASE("every bench is a schedule without problems") {
  std::vector<CollectiveCase> cases;
  for (const CollectiveKind op :
       {CollectiveKind::all_reduce, CollectiveKind::all_gather, CollectiveKind::reduce_scatter,
        CollectiveKind::broadcast, CollectiveKind::reduce}) {
    cases.push_back({op, Dtype::bf16, 1000});
  }
  for (const Axis axis : {Axis::world, Axis::shard, Axis::replicate}) {
    CHECK(problems(collectives_bench(two_by_two, axis, cases)).empty());
  }
  CHECK(problems(kernels_bench(two_by_two, {gemm("g", Dtype::fp32, 8, 8, 8)})).empty());
  CHECK(problems(equal_ops_bench(two_by_two, small, 3)).empty());
  CHECK(problems(overlap_bench(two_by_two, Axis::world, small, 5, cases[0], 2)).empty());
}

TEST_CASE("a size is rounded up to whole elements on every rank") {
  // 1001 bytes are 251 floats; three ranks share 252 of them.
  CHECK(moved_bytes({CollectiveKind::all_gather, Dtype::fp32, 1001}, 3) == 1008);
  CHECK(moved_bytes({CollectiveKind::all_reduce, Dtype::bf16, 1}, 4) == 8);
}

TEST_CASE("each collective of a bench is timed once a step, but for the first") {
  const std::vector<CollectiveCase> cases{{CollectiveKind::all_reduce, Dtype::fp32, 4096},
                                          {CollectiveKind::all_gather, Dtype::fp32, 1 << 20}};
  const Schedule schedule = collectives_bench(two_by_two, Axis::shard, cases);
  const auto times = durations(schedule, run(schedule, 4), OpKind::collective);
  REQUIRE(times.size() == 2);
  CHECK(times[0].size() == 3);
  CHECK(times[1].size() == 3);
  for (const Seconds s : times[1]) CHECK(s > 0);
}

TEST_CASE("timed ops take at least what they are told to") {
  const Schedule schedule = equal_ops_bench(two_by_two, small, 4);
  const std::vector<Seconds> whole = extents(schedule, run(schedule, 3, 0.5e-3), OpKind::compute);
  REQUIRE(whole.size() == 2);
  for (const Seconds s : whole) CHECK(s >= 4 * 0.5e-3 * (1 - 1e-9));
}

TEST_CASE("extents and durations of a timeline that is written by hand") {
  const Schedule schedule = equal_ops_bench({1, 2}, small, 2);
  Timeline t;
  const auto span = [&](int step, OpIndex op, Seconds start, Seconds end) {
    Span s;
    s.step = step;
    s.op = op;
    s.start = start;
    s.end = end;
    t.spans.push_back(s);
  };
  span(0, 0, 0, 100);
  span(0, 1, 100, 200);
  span(1, 0, 200, 203);
  span(1, 1, 204, 208);
  CHECK(extents(schedule, t, OpKind::compute) == std::vector<Seconds>{8});
  CHECK(durations(schedule, t, OpKind::compute) == std::vector<std::vector<Seconds>>{{3}, {4}});
}
