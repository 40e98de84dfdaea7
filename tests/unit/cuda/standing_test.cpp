// Out of where every rank stands: who is missing at what.

#include "runtime/cuda/standing.hpp"

#include <doctest/doctest.h>

#include "sim/schedule/builder.hpp"

namespace stepcast::runtime {
namespace {

// Four ranks, HSDP's mesh 2 x 2: op 0 reduce-scatters within a group, op 1 all-reduces across.
Schedule hsdp() {
  ScheduleBuilder b("hsdp", Mesh{2, 2});
  const StreamIndex nccl = b.stream("nccl");
  const CommIndex shard = b.communicator("shard", Axis::shard);
  const CommIndex replicate = b.communicator("replicate", Axis::replicate);
  b.lane("main");
  const BufferIndex x = b.persistent("x", BufferKind::bucket, Dtype::fp32, 64);
  b.role("all", 0, 4);
  b.step("steady");
  b.at(Phase::backward, b.unit("layers.0"));
  const std::vector<View> all{b.whole(x)};
  const std::vector<View> half{View{x, 0, 32}};
  b.collective("reduce_scatter", CollectiveKind::reduce_scatter, shard, nccl, Dtype::fp32, 16,
               Reduction::sum, all, half);
  b.collective("all_reduce", CollectiveKind::all_reduce, replicate, nccl, Dtype::fp32, 8,
               Reduction::sum, half, half);
  return b.take();
}

CommStanding entered(OpIndex op, std::int64_t elements, std::int64_t through = 0) {
  CommStanding c;
  c.entered = true;
  c.through = through;
  c.what = {op == 0 ? CollectiveKind::reduce_scatter : CollectiveKind::all_reduce, Reduction::sum,
            Dtype::fp32, elements, -1};
  c.at = {0, 0, 0, op};
  return c;
}
CommStanding at(std::int64_t through) {
  CommStanding c;
  c.through = through;
  return c;
}

TEST_CASE("the earliest collective that somebody waits in is named, with who is missing") {
  const Schedule s = hsdp();
  // Groups {0,1} and {2,3}. Rank 3 died in the reduce-scatter; 0 and 1 went on and wait for 2, 3.
  std::vector<RankStanding> ranks(4);
  ranks[0] = {false, false, {0, 0, 0, 1}, {at(1), entered(1, 8)}};
  ranks[1] = {false, false, {0, 0, 0, 1}, {at(1), entered(1, 8)}};
  ranks[2] = {false, false, {0, 0, 0, 0}, {entered(0, 16), at(0)}};
  ranks[3] = {true, false, {0, 0, 0, 0}, {at(0), at(0)}};
  CHECK(who_is_missing(s, ranks) ==
        "backward.reduce_scatter.layers.0 (step 0) on communicator shard waits for rank 3: rank 2 "
        "entered; rank 3 is gone (last seen at backward.reduce_scatter.layers.0 (step 0))");
}

TEST_CASE("several missing ranks are listed, one that has ended says so") {
  const Schedule s = hsdp();
  std::vector<RankStanding> ranks(4);
  ranks[0] = {false, false, {0, 0, 0, 1}, {at(1), entered(1, 8)}};
  for (std::size_t r = 1; r < 4; ++r) ranks[r] = {false, true, {}, {at(1), at(0)}};
  CHECK(who_is_missing(s, ranks) ==
        "backward.all_reduce.layers.0 (step 0) on communicator replicate waits for rank 2: rank 0 "
        "entered; rank 2 has ended");
}

TEST_CASE("ranks that entered different collectives are both named") {
  const Schedule s = hsdp();
  std::vector<RankStanding> ranks(4);
  ranks[0] = {false, false, {0, 0, 0, 0}, {entered(0, 16), at(0)}};
  ranks[1] = {false, false, {0, 0, 0, 0}, {entered(0, 12), at(0)}};
  CHECK(who_is_missing(s, ranks) ==
        "ranks disagree on communicator shard: rank 0 entered reduce_scatter of 16 fp32 elements "
        "(backward.reduce_scatter.layers.0 (step 0)), rank 1 reduce_scatter of 12 fp32 elements "
        "(backward.reduce_scatter.layers.0 (step 0))");
}

TEST_CASE("where all have entered it is the transport, where nobody has, all are told") {
  const Schedule s = hsdp();
  std::vector<RankStanding> ranks(4);
  ranks[2] = {false, false, {0, 0, 0, 0}, {entered(0, 16), at(0)}};
  ranks[3] = ranks[2];
  CHECK(who_is_missing(s, ranks) ==
        "backward.reduce_scatter.layers.0 (step 0) on communicator shard is entered by all of "
        "ranks 2, 3 and does not end");
  CHECK(who_is_missing(s, std::vector<RankStanding>(4)) ==
        "no op can go on: rank 0 has not begun; rank 1 has not begun; rank 2 has not begun; rank 3 "
        "has not begun");
}

TEST_CASE("a standing travels as bytes") {
  RankStanding s{false, true, {1, 2, 3, 4}, {entered(1, 8, 7), at(3)}};
  const RankStanding back = standing_of(to_bytes(s));
  CHECK(back.ended);
  CHECK(back.at.op == 4);
  REQUIRE(back.comms.size() == 2);
  CHECK(back.comms[0].through == 7);
  CHECK(back.comms[0].what == s.comms[0].what);
  CHECK(back.comms[1].through == 3);
  CHECK_THROWS(standing_of("x"));
}

}  // namespace
}  // namespace stepcast::runtime
