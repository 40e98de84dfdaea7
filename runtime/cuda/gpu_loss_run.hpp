#pragma once
// nn.DataParallel's loss on a GPU: the same steps as runtime/train/loss_run.hpp, in float64.

#include "runtime/cuda/math.hpp"
#include "runtime/cuda/scratch.hpp"
#include "runtime/train/plan.hpp"

namespace stepcast::runtime {

struct GpuLossRun {
  Gpu& gpu;
  GpuMath& math;
  GpuStream* stream = nullptr;
  Scratch& scratch;
  std::int64_t vocabulary = 0;
  std::byte* const* memory;
  double scale = 1;        // as in LossRun
  double* loss = nullptr;  // device: where forward leaves the mean over the labels
  FaultCell fault;
  const std::string& name;
};

void run_loss(const LossPlan& plan, const GpuLossRun& run);

}  // namespace stepcast::runtime
