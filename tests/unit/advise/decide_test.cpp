#include "sim/advise/decide.hpp"

#include <doctest/doctest.h>

using namespace stepcast;

namespace {

constexpr Bytes gb = 1'000'000'000;

// One node of 8 GPUs with 80 GB; DDP needs 100 GB, of which 60 are gradients and optimizer.
Facts one_node() {
  Facts f;
  f.capacity = 80 * gb;
  f.gpus = 8;
  f.nodes = 1;
  f.ddp_peak = 100 * gb;
  f.gradients_and_optimizer = 60 * gb;
  f.shard_grad_op_peak = 60 * gb;
  f.full_shard_peak = 40 * gb;
  f.hybrid_shard_peak = 1000 * gb;
  f.unit = 10 * gb;
  return f;
}

Facts four_nodes() {
  Facts f = one_node();
  f.gpus = 32;
  f.nodes = 4;
  f.shard_group = 8;
  f.hybrid_shard_peak = 70 * gb;
  f.full_shard_step = 1.0;
  f.exposed_all_gather = 0.1;
  return f;
}

}  // namespace

TEST_CASE("what fits under DDP stays under DDP, to the byte") {
  Facts f = one_node();
  f.ddp_peak = f.capacity;
  CHECK(decide(f) == Leaf::ddp);
  f.ddp_peak = f.capacity + 1;
  CHECK(decide(f) != Leaf::ddp);
}

TEST_CASE("one node: short by less than gradients and optimizer free is SHARD_GRAD_OP") {
  Facts f = one_node();
  CHECK(short_by(f) == 20 * gb);
  CHECK(freed_by_zero2(f) == 52'500'000'000);  // 60 * 7/8
  CHECK(decide(f) == Leaf::shard_grad_op);
  f.ddp_peak = 132 * gb;  // short by 52
  CHECK(decide(f) == Leaf::shard_grad_op);
  f.ddp_peak = 133 * gb;  // short by 53, and the replay agrees that it is too much
  f.shard_grad_op_peak = 81 * gb;
  CHECK(decide(f) == Leaf::full_shard);
}

TEST_CASE("one node: the count says no, the replay of SHARD_GRAD_OP fits: the replay decides") {
  Facts f = one_node();
  f.ddp_peak = 133 * gb;
  f.shard_grad_op_peak = 80 * gb;
  CHECK(decide(f) == Leaf::shard_grad_op);
}

TEST_CASE("one node: the count says SHARD_GRAD_OP, its transient buffers say no") {
  Facts f = one_node();
  f.shard_grad_op_peak = 85 * gb;
  CHECK(decide(f) == Leaf::full_shard);
}

TEST_CASE("several nodes: hybrid where it fits and all-gathers would show, from 2 % of the step") {
  Facts f = four_nodes();
  CHECK(decide(f) == Leaf::hybrid_shard);
  f.exposed_all_gather = 0.021;
  CHECK(decide(f) == Leaf::hybrid_shard);
  f.exposed_all_gather = 0.019;
  CHECK(decide(f) == Leaf::full_shard);
}

TEST_CASE("several nodes: a group that does not hold the states shards over all") {
  Facts f = four_nodes();
  f.hybrid_shard_peak = 81 * gb;
  CHECK(decide(f) == Leaf::full_shard);
}

TEST_CASE("a unit larger than a GPU exhausts data parallelism") {
  Facts f = four_nodes();
  f.unit = 81 * gb;
  CHECK(decide(f) == Leaf::exhausted);
}

TEST_CASE("nothing fits: activations or too few GPUs") {
  Facts f = one_node();
  f.shard_grad_op_peak = 95 * gb;
  f.full_shard_peak = 90 * gb;
  CHECK(decide(f) == Leaf::none);
  f.gpus = 1;
  CHECK(decide(f) == Leaf::none);
}
