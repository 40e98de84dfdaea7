#pragma once
// A failed call of CUDA becomes a GpuError that says which call, and what CUDA says of it.

#include <cuda_runtime_api.h>

#include <string>

#include "runtime/cuda/gpu.hpp"

namespace stepcast::cuda {

inline void check(cudaError_t code, const char* call) {
  if (code == cudaSuccess) return;
  const std::string message =
      std::string(call) + ": " + cudaGetErrorString(code) + " (" + cudaGetErrorName(code) + ")";
  if (code == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // not sticky: the next call must not see it
    throw runtime::OutOfGpuMemory(message);
  }
  throw runtime::GpuError(message);
}

inline cudaStream_t stream_of(runtime::GpuStream* stream) {
  return reinterpret_cast<cudaStream_t>(stream);
}

}  // namespace stepcast::cuda

// CUDA_CHECK(cudaSetDevice(0));
#define CUDA_CHECK(call) ::stepcast::cuda::check((call), #call)
