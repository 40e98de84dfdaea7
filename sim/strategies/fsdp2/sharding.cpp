#include "sim/strategies/fsdp2/sharding.hpp"

#include <algorithm>

namespace stepcast::fsdp2 {

ShardedParameter shard_dim0(const std::vector<std::int64_t>& shape, int ranks) {
  ShardedParameter sharded;
  const std::int64_t rows = shape.empty() ? 1 : shape.front();  // a scalar is one row
  for (std::size_t d = 1; d < shape.size(); ++d) sharded.row_elements *= shape[d];
  sharded.rows_per_rank = ceil_div(rows, ranks);
  sharded.padded_elements = sharded.rows_per_rank * ranks * sharded.row_elements;
  sharded.elements = rows * sharded.row_elements;
  return sharded;
}

std::int64_t ShardedParameter::rows_held_by(int rank, std::int64_t rows) const {
  const std::int64_t first = rows_per_rank * rank;
  return std::clamp<std::int64_t>(rows - first, 0, rows_per_rank);
}

UnitSize unit_size(const Model& model, const WrapUnit& unit, int ranks) {
  UnitSize size;
  for (const int index : unit.parameters) {
    const ShardedParameter sharded =
        shard_dim0(model.parameters[static_cast<std::size_t>(index)].shape, ranks);
    size.elements += sharded.elements;
    size.padded_elements += sharded.padded_elements;
  }
  return size;
}

}  // namespace stepcast::fsdp2
