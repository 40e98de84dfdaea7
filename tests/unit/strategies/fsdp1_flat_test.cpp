#include <doctest/doctest.h>

#include "sim/strategies/fsdp1/average.hpp"
#include "sim/strategies/fsdp1/flat_parameter.hpp"

namespace stepcast::fsdp1 {
namespace {

using Offsets = std::vector<std::int64_t>;

TEST_CASE("E-16: 10, 7 and 16 elements on 4 ranks, aligned to 16 bytes of the forward dtype") {
  const std::vector<std::int64_t> numels{10, 7, 16};
  SUBCASE("bf16, use_orig_params: multiples of 8 elements") {
    const FlatParameter flat = flatten(numels, 4, Dtype::bf16, true);
    CHECK(flat.offsets == Offsets{0, 16, 24});
    CHECK(flat.padded_elements == 40);
    CHECK(flat.shard_elements == 10);
    CHECK(flat.elements == 33);
  }
  SUBCASE("fp32, use_orig_params: multiples of 4") {
    const FlatParameter flat = flatten(numels, 4, Dtype::fp32, true);
    CHECK(flat.offsets == Offsets{0, 12, 20});
    CHECK(flat.padded_elements == 36);
    CHECK(flat.shard_elements == 9);
  }
  SUBCASE("without use_orig_params: 33 elements in shards of 9, 9, 9 and 6 (+3)") {
    const FlatParameter flat = flatten(numels, 4, Dtype::bf16, false);
    CHECK(flat.offsets == Offsets{0, 10, 17});
    CHECK(flat.shard_elements == 9);
    CHECK(flat.held_by(2) == 9);
    CHECK(flat.held_by(3) == 6);
  }
}

TEST_CASE("E-16: 5 elements on 4 ranks are shards of 2, 2, 1 and 0, padded to 8") {
  const std::vector<std::int64_t> numels{5};
  const FlatParameter flat = flatten(numels, 4, Dtype::fp32, false);
  CHECK(flat.padded_elements == 8);
  CHECK(flat.held_by(0) == 2);
  CHECK(flat.held_by(1) == 2);
  CHECK(flat.held_by(2) == 1);
  CHECK(flat.held_by(3) == 0);
}

TEST_CASE("E-17: pre- and post-division factors by world size") {
  struct Row {
    int ranks;
    double pre, post;
  };
  for (const Row& row : {Row{1, 1, 1},
                         {2, 2, 1},
                         {3, 2, 1.5},
                         {4, 2, 2},
                         {6, 4, 1.5},
                         {8, 4, 2},
                         {12, 4, 3},
                         {16, 4, 4},
                         {24, 8, 3},
                         {32, 8, 4},
                         {64, 8, 8},
                         {128, 16, 8},
                         {256, 16, 16},
                         {1024, 32, 32}}) {
    CAPTURE(row.ranks);
    CHECK(average_of(row.ranks).pre == row.pre);
    CHECK(average_of(row.ranks).post == row.post);
  }
}

}  // namespace
}  // namespace stepcast::fsdp1
