#pragma once
// Carries out a layer's plan: reads activations and tensors out of memory, computes (mlp.hpp),
// writes results and gradients back.

#include <cstddef>
#include <string>

#include "runtime/train/plan.hpp"
#include "runtime/train/shape.hpp"

namespace stepcast::runtime {

struct LayerRun {
  const MlpShape& shape;
  std::byte* const* memory;
  std::int64_t tokens = 0;  // of the micro-batch
  // What the mean loss is multiplied by for its gradient: the loss scale over the micro-batches.
  double loss_scale = 1;
  const std::string& name;
};

// Returns the loss (mean over tokens) of the head's forward, else 0.
double run_layer(const LayerPlan& plan, const LayerRun& run);

}  // namespace stepcast::runtime
