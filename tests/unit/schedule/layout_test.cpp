// Where elements lie, by hand.

#include "sim/schedule/layout.hpp"

#include <doctest/doctest.h>

#include "sim/schedule/builder.hpp"

namespace stepcast {
namespace {

// Tensors a of 5 and b of 3 elements.
Schedule with(Cut cut, Mesh mesh, std::int64_t part, const std::vector<Placed>& placed) {
  ScheduleBuilder builder("layout", mesh);
  const BufferIndex buffer = builder.persistent("p", BufferKind::parameter, Dtype::fp32, 64);
  builder.layout(buffer, cut, Axis::shard, part, placed);
  return builder.take();
}

std::vector<Run> runs(const Schedule& schedule, int index) {
  return runs_of(schedule, schedule.layouts.at(0), index);
}

using Runs = std::vector<Run>;

TEST_CASE("whole: each tensor from its place on, the same on every rank") {
  const Schedule s = with(Cut::whole, {1, 2}, 0, {{0, 5, 0, 0}, {1, 3, 8, 0}});
  CHECK(runs(s, 0) == Runs{{0, 0, 5, 0}, {1, 0, 3, 8}});
  CHECK(runs(s, 1) == runs(s, 0));
}

TEST_CASE("flat: a rank's stretch cuts tensors and gaps wherever it falls") {
  // a0 a1 a2 a3 | a4 . . . | b0 b1 b2 .     three ranks of four elements
  const Schedule s = with(Cut::flat, {1, 3}, 4, {{0, 5, 0, 0}, {1, 3, 8, 0}});
  CHECK(runs(s, 0) == Runs{{0, 0, 4, 0}});
  CHECK(runs(s, 1) == Runs{{0, 4, 1, 0}});
  CHECK(runs(s, 2) == Runs{{1, 0, 3, 0}});
}

TEST_CASE("chunks and by_rank: the example of layout.hpp") {
  const std::vector<Placed> placed{{0, 5, 0, 3}, {1, 3, 3, 2}};
  const Schedule mine = with(Cut::chunks, {1, 2}, 5, placed);
  CHECK(runs(mine, 0) == Runs{{0, 0, 3, 0}, {1, 0, 2, 3}});
  CHECK(runs(mine, 1) == Runs{{0, 3, 2, 0}, {1, 2, 1, 3}});
  const Schedule all = with(Cut::by_rank, {1, 2}, 5, placed);
  CHECK(runs(all, 0) == Runs{{0, 0, 3, 0}, {1, 0, 2, 3}, {0, 3, 2, 5}, {1, 2, 1, 8}});
}

TEST_CASE("a rank has an index in its group of each axis") {
  const Mesh mesh{2, 3};  // shard groups {0,1,2} {3,4,5}, replicate groups {0,3} {1,4} {2,5}
  CHECK(index_in_group(mesh, Axis::shard, 4) == 1);
  CHECK(index_in_group(mesh, Axis::replicate, 4) == 1);
  CHECK(ranks_of_group(mesh, Axis::shard, 4) == std::vector<int>{3, 4, 5});
  CHECK(ranks_of_group(mesh, Axis::replicate, 4) == std::vector<int>{1, 4});
  CHECK(ranks_of_group(mesh, Axis::world, 4).size() == 6);
}

}  // namespace
}  // namespace stepcast
