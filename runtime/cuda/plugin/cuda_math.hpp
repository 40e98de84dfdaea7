#pragma once
// GpuMath by cuBLAS and small kernels (small_kernels.hpp).

#include <memory>

#include "runtime/cuda/math.hpp"
#include "runtime/cuda/plugin/cublas.hpp"

namespace stepcast::cuda {

std::unique_ptr<runtime::GpuMath> make_math(std::shared_ptr<Cublas> cublas);

}  // namespace stepcast::cuda
