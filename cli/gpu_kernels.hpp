#pragma once
// What the kernel models say of a GPU: its figures, and a few kernels of a step with what each
// rests on. `stepcast show` prints it.

#include <string>
#include <vector>

#include "sim/kernels/kernel_cost.hpp"

namespace stepcast::cli {

struct GpuKernel {
  std::string what;  // "product 8,192 x 4,096 x 4,096"
  KernelCost cost;
  double flops = 0;  // 0: bound by memory
  double bytes = 0;  // read and written
};

struct GpuKernels {
  KernelFigures figures;
  std::string profile;
  Dtype dtype = Dtype::bf16;
  std::vector<GpuKernel> kernels;
};

GpuKernels gpu_kernels(const Gpu& gpu);

}  // namespace stepcast::cli
