#pragma once
// How DeepSpeed cuts a model among ranks.
//
// Stages 1 and 2: all trainable parameters of a group lie in one flat 16-bit buffer in definition
// order, padded to a multiple of 2 W elements; rank r owns [r P, (r+1) P), wherever that cuts.
//   1,001 elements, W = 4: padded to 1,008, 252 a rank
// Stage 3: every parameter separately, ceil(numel / W) elements a rank.
//   10 elements, W = 4: 3 a rank, 12 gathered
//
// Source: DeepSpeed stage_1_and_2.py, partition_parameters.py (docs/sources.md 1.5, 1.6).
// Tested by tests/unit/strategies/zero_test.cpp (E-27).

#include <cstdint>

#include "base/units.hpp"

namespace stepcast::zero {

struct FlatPartition {
  std::int64_t elements = 0;
  std::int64_t padded_elements = 0;
  std::int64_t per_rank = 0;
};

constexpr FlatPartition flat_partition(std::int64_t elements, int ranks) {
  const std::int64_t padded = round_up(elements, 2 * static_cast<std::int64_t>(ranks));
  return {elements, padded, padded / ranks};
}

// Stage 3: elements of one parameter that a rank holds; all ranks together gather W times that.
constexpr std::int64_t parameter_partition(std::int64_t numel, int ranks) {
  return ceil_div(numel, ranks);
}

}  // namespace stepcast::zero
