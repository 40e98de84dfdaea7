#pragma once
// FSDP1's size_based_auto_wrap_policy(min_num_params): modules become units bottom-up. A module
// with at least `min` parameters is entered; what its children have not wrapped stays with it, and
// if that is still at least `min` it becomes a unit, unless it is a ModuleList. The root takes the
// rest.
//
//   Llama-2-7B, min 1e8 (the default): a block has 202 M, so it is entered: its MLP (135 M) is a
//   unit, its attention (67 M) is not, and the block's remainder (67 M) is not either. All
//   attention layers (2.1 B) end in one unit around the whole model. min 1.5e8: no child is large
//   enough, the block with its 202 M is the unit.
//
// Units of stepcast are whole layers (embedding, block, norm, head). Where the policy makes
// anything else a unit, as in the first line, that is refused with what it would have wrapped,
// rather than rounded to blocks. Source: PyTorch torch/distributed/fsdp/wrap.py, _recursive_wrap
// (docs/sources.md 2.2). Tested by tests/unit/strategies/size_policy_test.cpp.

#include <cstdint>
#include <string>
#include <vector>

#include "models/model.hpp"

namespace stepcast::fsdp1 {

// The modules that the policy makes units, by name ("model.layers.0.mlp"), children first.
struct WrappedModule {
  std::string name;
  std::vector<int> parameters;  // its own and its children's that no unit within it has
};
std::vector<WrappedModule> wrapped_by_size(const Model& model, std::int64_t min_parameters);

// As wrap_units(): the root first. Throws InputError where a unit is no whole layer.
std::vector<WrapUnit> wrap_by_size(const Model& model, std::int64_t min_parameters);

}  // namespace stepcast::fsdp1
