#include "sim/strategies/fsdp1/flat_parameter.hpp"

#include <algorithm>

namespace stepcast::fsdp1 {

FlatParameter flatten(std::span<const std::int64_t> numels, int ranks, Dtype forward_dtype,
                      bool use_orig_params) {
  constexpr Bytes alignment = 16;
  const std::int64_t align = use_orig_params ? alignment / bytes_per_element(forward_dtype) : 1;
  FlatParameter flat;
  std::int64_t end = 0;
  for (const std::int64_t numel : numels) {
    end = round_up(end, align);
    flat.offsets.push_back(end);
    end += numel;
    flat.elements += numel;
  }
  flat.unpadded_ = end;
  flat.padded_elements = round_up(end, ranks);
  flat.shard_elements = flat.padded_elements / ranks;
  return flat;
}

std::int64_t FlatParameter::held_by(int rank) const {
  return std::clamp<std::int64_t>(unpadded_ - shard_elements * rank, 0, shard_elements);
}

}  // namespace stepcast::fsdp1
