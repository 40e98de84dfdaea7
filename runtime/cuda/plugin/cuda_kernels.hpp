#pragma once
// GpuKernels by cuBLASLt, cuDNN and small kernels (small_kernels.hpp).

#include <memory>

#include "runtime/cuda/kernels.hpp"
#include "runtime/cuda/plugin/cublas.hpp"
#include "runtime/cuda/plugin/cudnn.hpp"

namespace stepcast::cuda {

// `cudnn` may be null: `no_cudnn` says why.
std::unique_ptr<runtime::GpuKernels> make_kernels(std::shared_ptr<CublasLt> cublas,
                                                  std::shared_ptr<Cudnn> cudnn,
                                                  std::string no_cudnn);

}  // namespace stepcast::cuda
