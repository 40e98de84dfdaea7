#include <doctest/doctest.h>

#include "sim/strategies/fsdp2/sharding.hpp"

namespace stepcast::fsdp2 {
namespace {

TEST_CASE("E-15: rows are cut by ceil(d0/W) and padded to the world size") {
  SUBCASE("[4096,4096] on 8 ranks: 512 rows, no padding") {
    const ShardedParameter p = shard_dim0({4096, 4096}, 8);
    CHECK(p.rows_per_rank == 512);
    CHECK(p.padded_elements == p.elements);
  }
  SUBCASE("[10,3]: 2 rows a rank, ranks 0-4 hold 2 and 5-7 none, 48 elements gathered for 30") {
    const ShardedParameter p = shard_dim0({10, 3}, 8);
    CHECK(p.rows_per_rank == 2);
    CHECK(p.elements == 30);
    CHECK(p.padded_elements == 48);
    for (int rank = 0; rank < 5; ++rank) CHECK(p.rows_held_by(rank, 10) == 2);
    for (int rank = 5; rank < 8; ++rank) CHECK(p.rows_held_by(rank, 10) == 0);
  }
  SUBCASE("[1]: 8 gathered for 1") { CHECK(shard_dim0({1}, 8).padded_elements == 8); }
  SUBCASE("[12,5]: 80 for 60") {
    CHECK(shard_dim0({12, 5}, 8).padded_elements == 80);
    CHECK(shard_dim0({12, 5}, 8).elements == 60);
  }
  SUBCASE("[50257,768]: 6283 rows a rank, 50264 rows, 5376 elements of padding") {
    const ShardedParameter p = shard_dim0({50257, 768}, 8);
    CHECK(p.rows_per_rank == 6283);
    CHECK(p.padded_rows(8) == 50264);
    CHECK(p.padded_elements - p.elements == 5376);
  }
  SUBCASE("a scalar is one row") { CHECK(shard_dim0({}, 4).padded_elements == 4); }
}

TEST_CASE("E-15 at scale: a Llama-3-70B block on 16,384 ranks gathers 1.8 times its elements") {
  // q, o [8192,8192]; k, v [1024,8192]; gate, up [28672,8192]; down [8192,28672]; two norms [8192].
  const std::vector<std::vector<std::int64_t>> block{{8192, 8192},  {1024, 8192},  {1024, 8192},
                                                     {8192, 8192},  {28672, 8192}, {28672, 8192},
                                                     {8192, 28672}, {8192},        {8192}};
  std::int64_t elements = 0;
  std::int64_t padded = 0;
  for (const auto& shape : block) {
    const ShardedParameter p = shard_dim0(shape, 16384);
    elements += p.elements;
    padded += p.padded_elements;
  }
  CHECK(elements == 855'654'400);
  CHECK(padded == 1'543'536'640);
}

}  // namespace
}  // namespace stepcast::fsdp2
