// Compute is waited for, collectives really move.
#include "runtime/real_replay.hpp"

#include <doctest/doctest.h>

#include "runtime/cpu/executor.hpp"
#include "sim/schedule/builder.hpp"

using namespace stepcast;
using namespace stepcast::runtime;

namespace {

// One op of compute, then an all-reduce of 4 MiB over four ranks.
Schedule one_of_each() {
  ScheduleBuilder b("both", Mesh{1, 4});
  b.lane("main");
  const StreamIndex compute = b.stream("compute");
  const StreamIndex comm = b.stream("comm");
  const CommIndex world = b.communicator("world", Axis::world);
  const BufferIndex tensor = b.persistent("t", BufferKind::bucket, Dtype::fp32, 4 * mib);
  const Kernel kernel = memory_bound("k", Dtype::fp32, 4, 4);
  b.role("all", 0, 4);
  b.step("steady");
  const View view = b.whole(tensor);
  const OpIndex first = b.one_kernel("compute", compute, kernel, {}, {});
  b.stream_wait(comm, first);
  b.collective("all_reduce", CollectiveKind::all_reduce, world, comm, Dtype::fp32, mib,
               Reduction::sum, {&view, 1}, {&view, 1});
  b.host_wait_device();
  return b.take();
}

}  // namespace

TEST_CASE("compute takes what it is told, a collective what its bytes take") {
  const Schedule schedule = one_of_each();
  Durations durations(1);
  // The collective is told to take an hour, which counts for nothing.
  durations[0].push_back({{2e-3, 0}, {}, {3600, 0}, {}});
  RealReplay work(schedule, durations);
  // Two tensors of 4 MiB on each of four ranks.
  CHECK(RealReplay::memory_of(schedule) == 4 * 2 * 4 * mib);
  const Execution run = execute(schedule, work, {.steps = 2});
  int collectives = 0;
  for (const Span& span : run.timeline.spans) {
    const Op& op = schedule.roles[0].steps[0].ops[static_cast<std::size_t>(span.op)];
    if (op.kind == OpKind::compute) CHECK(span.end - span.start >= 2e-3 * (1 - 1e-9));
    if (op.kind != OpKind::collective) continue;
    ++collectives;
    CHECK(span.end > span.start);
    CHECK(span.end - span.start < 60);
  }
  CHECK(collectives == 2);
}
