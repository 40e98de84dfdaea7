#pragma once
// FSDP2's per-parameter sharding: dim 0 is cut into rows by torch.chunk, ceil(d0 / W) a rank; the
// trailing ranks may hold fewer or none, but every rank's shard is stored zero-padded to
// ceil(d0 / W) rows, so an all-gather moves W * ceil(d0 / W) * rest elements.
//
//   [10,3] on 8 ranks: 2 rows a rank, ranks 0-4 hold 2, 5-7 hold 0; 48 elements gathered for 30
//   [1]    on 8 ranks: 8 gathered for 1
//
// At scale the padding grows: 1,024 rows on 16,384 ranks are 16,384 rows.
// Source: PyTorch _fsdp_param.py (docs/sources.md 2.3). Tested by
// tests/unit/strategies/fsdp2_sharding_test.cpp (E-15).

#include <cstdint>
#include <vector>

#include "models/model.hpp"

namespace stepcast::fsdp2 {

struct ShardedParameter {
  std::int64_t rows_per_rank = 0;    // ceil(d0 / W)
  std::int64_t row_elements = 1;     // product of the other dimensions
  std::int64_t padded_elements = 0;  // W * rows_per_rank * row_elements: what an all-gather moves
  std::int64_t elements = 0;         // without padding

  std::int64_t padded_rows(int ranks) const { return rows_per_rank * ranks; }
  std::int64_t rows_held_by(int rank, std::int64_t rows) const;
};

ShardedParameter shard_dim0(const std::vector<std::int64_t>& shape, int ranks);

struct UnitSize {
  std::int64_t elements = 0;  // ψ
  std::int64_t padded_elements = 0;
  std::int64_t shard_elements(int ranks) const { return padded_elements / ranks; }
};

UnitSize unit_size(const Model& model, const WrapUnit& unit, int ranks);

}  // namespace stepcast::fsdp2
