#pragma once
// FSDP1 lays all parameters of a unit in one flat tensor and cuts that into W equal shards; shard
// boundaries ignore tensor boundaries.
//
//   use_orig_params=True   each parameter starts at a multiple of 16 bytes of the *forward* dtype
//                          (bf16: 8 elements, fp32: 4); the total is padded to a multiple of W
//   use_orig_params=False  no alignment; shards of ceil(n/W), the missing tail is zero-padded
//
//   10, 7, 16 elements, W=4, bf16, use_orig_params: offsets 0, 16, 24; total 40; shard 10
//
// Source: PyTorch _flat_param.py (docs/sources.md 2.2). Tested by
// tests/unit/strategies/fsdp1_flat_test.cpp (E-16).

#include <cstdint>
#include <span>
#include <vector>

#include "base/units.hpp"

namespace stepcast::fsdp1 {

struct FlatParameter {
  std::vector<std::int64_t> offsets;  // of each parameter, in elements
  std::int64_t elements = 0;          // ψ: without any padding
  std::int64_t padded_elements = 0;   // what all-gather and reduce-scatter move
  std::int64_t shard_elements = 0;    // padded / W

  // Real elements that a rank's shard holds; the rest of shard_elements is padding.
  std::int64_t held_by(int rank) const;

 private:
  friend FlatParameter flatten(std::span<const std::int64_t>, int, Dtype, bool);
  std::int64_t unpadded_ = 0;  // aligned length before the padding to W
};

FlatParameter flatten(std::span<const std::int64_t> numels, int ranks, Dtype forward_dtype,
                      bool use_orig_params);

}  // namespace stepcast::fsdp1
