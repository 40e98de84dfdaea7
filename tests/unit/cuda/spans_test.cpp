// What bound an op: of issue, stream, wait and communicator the one that was met last.

#include "runtime/cuda/spans.hpp"

#include <doctest/doctest.h>

#include "runtime/steps.hpp"
#include "sim/schedule/builder.hpp"

namespace stepcast::runtime {
namespace {

TEST_CASE("an op is bound by what was met last") {
  ScheduleBuilder b("spans", Mesh{1, 1});
  const StreamIndex compute = b.stream("compute");
  const StreamIndex nccl = b.stream("nccl");
  const StreamIndex other = b.stream("other");
  const CommIndex world = b.communicator("world", Axis::world);
  b.lane("main");
  const BufferIndex x = b.persistent("x", BufferKind::bucket, Dtype::fp32, 16);
  const std::vector<View> view{b.whole(x)};
  const std::vector<View> none;
  b.role("all", 0, 1);
  b.step("steady");
  const OpIndex first = b.compute("first", compute, {}, none, none);  // 0
  b.compute("second", compute, {}, none, none);                       // 1
  b.stream_wait(nccl, first);                                         // 2
  b.collective("reduce", CollectiveKind::all_reduce, world, nccl, Dtype::fp32, 4, Reduction::sum,
               view, view);  // 3
  b.collective("again", CollectiveKind::all_reduce, world, other, Dtype::fp32, 4, Reduction::sum,
               view, view);  // 4
  const Schedule s = b.take();

  std::vector<OpTimes> times(s.roles[0].steps[0].ops.size());
  times[0] = {1, 1.5, 3};  // issued at 1: the host
  times[1] = {1.2, 3, 4};  // 0 ended at 3: its stream
  times[3] = {2, 3, 6};    // waits for 0
  times[4] = {2.5, 6, 7};  // another stream, but one communicator
  const std::vector<Span> spans = spans_of(s, 0, {0}, {times});
  REQUIRE(spans.size() == 4);
  CHECK(spans[0].bound == Bound::host);
  CHECK(spans[1].bound == Bound::stream);
  CHECK(spans[1].cause == 0);
  CHECK(spans[2].bound == Bound::wait);
  CHECK(spans[2].cause == 0);
  CHECK(spans[3].bound == Bound::communicator);
  CHECK(spans[3].cause == 3);
  Timeline t;
  t.spans = spans;
  add_steps(t, s, {0});
  CHECK(t.steps[0].end == 7);
}

}  // namespace
}  // namespace stepcast::runtime
