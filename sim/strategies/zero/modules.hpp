#pragma once
// Stage 3 hooks every nn.Module that owns parameters: one fetch a Linear, unless modules are merged
// (leaf modules). Here a module is the parameters that share the name up to its last dot, and the
// stretch of its layer's kernels from its first matrix product to the next module's.
//
// Small modules (norms) whose parameters stay gathered are no fetch of their own. Where the matrix
// products of a layer cannot be told apart by module (as many as modules in forward, twice as many
// in backward), the layer is one module.
// Tested by tests/unit/strategies/zero3_test.cpp.

#include <cstdint>
#include <vector>

#include "sim/strategies/common/layer_walk.hpp"

namespace stepcast::zero {

struct Module {
  int layer = 0;
  std::vector<int> parameters;  // that are gathered and released (indices into the model)
  std::int64_t elements = 0;
  int forward_first = 0, forward_count = 0;    // kernels of the layer's forward
  int backward_first = 0, backward_count = 0;  // and of its backward
};

struct ModulePlan {
  std::vector<Module> modules;             // forward order
  std::vector<std::vector<int>> of_layer;  // forward order within the layer
  std::vector<int> persistent;             // parameters that stay gathered
};

ModulePlan plan_modules(const Model& model, const LayerWalk& walk,
                        std::int64_t persistence_threshold, bool leaf_layers);

}  // namespace stepcast::zero
