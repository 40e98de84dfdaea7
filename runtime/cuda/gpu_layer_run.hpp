#pragma once
// A layer's plan on a GPU: the same steps as runtime/train/layer_run.hpp, enqueued as matrix
// products and small kernels.

#include "runtime/cuda/math.hpp"
#include "runtime/cuda/scratch.hpp"
#include "runtime/train/plan.hpp"
#include "runtime/train/shape.hpp"

namespace stepcast::runtime {

struct GpuLayerRun {
  Gpu& gpu;
  GpuMath& math;
  GpuStream* stream = nullptr;
  Scratch& scratch;
  const MlpShape& shape;
  std::byte* const* memory;
  std::int64_t tokens = 0;  // of the micro-batch
  double loss_scale = 1;    // as in LayerRun
  double* loss = nullptr;   // device: the head's forward adds its mean loss
  FaultCell fault;
  const std::string& name;
};

void run_layer(const LayerPlan& plan, const GpuLayerRun& run);

}  // namespace stepcast::runtime
