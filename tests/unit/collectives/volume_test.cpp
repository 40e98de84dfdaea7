// Bytes sent per rank and step for 7e9 parameters on 8 GPUs, worked by hand: S = 14e9 B in 16 bits,
// an all-gather or reduce-scatter sends 7/8 S = 12.25 GB, an all-reduce 24.5 GB.

#include "sim/collectives/volume.hpp"

#include <doctest/doctest.h>

#include "base/error.hpp"

using namespace stepcast;

namespace {

constexpr double gb = 1e9;

double total(VolumeStrategy strategy, int micro_batches, VolumeSync sync, double reduce_bytes = 2) {
  VolumeOptions o;
  o.parameters = 7e9;
  o.ranks = 8;
  o.micro_batches = micro_batches;
  o.sync = sync;
  o.reduce_bytes = reduce_bytes;
  return strategy_volume(o, strategy).total() / gb;
}

}  // namespace

TEST_CASE("a ring all-reduce is a reduce-scatter and an all-gather in volume") {
  for (const int n : {2, 3, 8, 1000}) {
    CHECK(ring_all_reduce_bytes(14e9, n) ==
          doctest::Approx(ring_reduce_scatter_bytes(14e9, n) + ring_all_gather_bytes(14e9, n)));
  }
  CHECK(ring_all_reduce_bytes(14e9, 8) == doctest::Approx(24.5e9));
  CHECK(ring_all_reduce_bytes(14e9, 1) == 0);
}

TEST_CASE("a primary that gathers and broadcasts moves (N-1) S in and as much out") {
  CHECK(primary_bytes(14e9, 8) == doctest::Approx(196e9));  // 8 times a ring rank's 24.5
  CHECK(primary_bytes(14e9, 8) / ring_all_reduce_bytes(14e9, 8) == doctest::Approx(8));
}

TEST_CASE("one micro-batch: full sharding sends 1.5 times what DDP sends in the same dtype") {
  CHECK(total(VolumeStrategy::ddp, 1, VolumeSync::every) == doctest::Approx(24.5));
  CHECK(total(VolumeStrategy::full_shard, 1, VolumeSync::every) == doctest::Approx(36.75));
  CHECK(total(VolumeStrategy::shard_grad_op, 1, VolumeSync::every) == doctest::Approx(24.5));
  CHECK(total(VolumeStrategy::no_reshard, 1, VolumeSync::every) == doctest::Approx(24.5));
  CHECK(total(VolumeStrategy::zero1, 1, VolumeSync::every) == doctest::Approx(36.75));
  CHECK(total(VolumeStrategy::zero2, 1, VolumeSync::every) == doctest::Approx(36.75));
  CHECK(total(VolumeStrategy::zero2_reduce, 1, VolumeSync::every) == doctest::Approx(24.5));
  CHECK(total(VolumeStrategy::zero3, 1, VolumeSync::every) == doctest::Approx(36.75));
}

TEST_CASE("with fp32 reduction DDP and full sharding send the same 49 GB") {
  CHECK(total(VolumeStrategy::ddp, 1, VolumeSync::every, 4) == doctest::Approx(49));
  CHECK(total(VolumeStrategy::full_shard, 1, VolumeSync::every, 4) == doctest::Approx(49));
  CHECK(total(VolumeStrategy::shard_grad_op, 1, VolumeSync::every, 4) == doctest::Approx(36.75));
}

TEST_CASE("four micro-batches, gradients reduced in every one") {
  CHECK(total(VolumeStrategy::ddp, 4, VolumeSync::every) == doctest::Approx(98));
  CHECK(total(VolumeStrategy::full_shard, 4, VolumeSync::every) == doctest::Approx(147));
  CHECK(total(VolumeStrategy::shard_grad_op, 4, VolumeSync::every) == doctest::Approx(98));
  CHECK(total(VolumeStrategy::no_reshard, 4, VolumeSync::every) == doctest::Approx(98));
  CHECK(total(VolumeStrategy::zero2, 4, VolumeSync::every) == doctest::Approx(110.25));
  CHECK(total(VolumeStrategy::zero2_reduce, 4, VolumeSync::every) == doctest::Approx(61.25));
  CHECK(total(VolumeStrategy::zero3, 4, VolumeSync::every) == doctest::Approx(147));
}

TEST_CASE("four micro-batches, gradients reduced in the last") {
  CHECK(total(VolumeStrategy::ddp, 4, VolumeSync::last) == doctest::Approx(24.5));
  CHECK(total(VolumeStrategy::full_shard, 4, VolumeSync::last) == doctest::Approx(110.25));
  CHECK(total(VolumeStrategy::shard_grad_op, 4, VolumeSync::last) == doctest::Approx(24.5));
  CHECK(total(VolumeStrategy::no_reshard, 4, VolumeSync::last) == doctest::Approx(61.25));
  CHECK(total(VolumeStrategy::no_reshard, 4, VolumeSync::last_free) == doctest::Approx(24.5));
  CHECK(total(VolumeStrategy::zero1, 4, VolumeSync::last) == doctest::Approx(36.75));
}

TEST_CASE("what a framework does not have is refused") {
  CHECK_THROWS_AS(total(VolumeStrategy::zero1, 4, VolumeSync::every), InputError);
  CHECK_THROWS_AS(total(VolumeStrategy::zero2, 4, VolumeSync::last), InputError);
  CHECK_THROWS_AS(total(VolumeStrategy::zero3, 4, VolumeSync::last), InputError);
  CHECK_THROWS_AS(total(VolumeStrategy::ddp, 4, VolumeSync::last_free), InputError);
}

TEST_CASE("hybrid sharding keeps all-gathers in the node, only a shard is all-reduced between") {
  VolumeOptions o;
  o.parameters = 7e9;
  for (const auto& [replicas, inter] :
       {std::pair{2, 1.75}, std::pair{4, 2.625}, std::pair{8, 3.0625}}) {
    const HybridVolume v = hybrid_volume(o, 8, replicas);
    CHECK(v.intra / gb == doctest::Approx(36.75));
    CHECK(v.inter / gb == doctest::Approx(inter));
  }
  o.reduce_bytes = 4;  // as the framework reduces by default
  CHECK(hybrid_volume(o, 8, 4).inter / gb == doctest::Approx(5.25));
}
