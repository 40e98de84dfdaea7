#pragma once
// What all small kernels share: grids, numbers of a dtype that is known at run time, sums over a
// block. Arithmetic is double where the dtype is not known at compile time.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "runtime/cuda/plugin/small_kernels.hpp"

namespace stepcast::cuda {

inline constexpr int threads = 256;

inline unsigned blocks_for(std::int64_t count) {
  const std::int64_t blocks = (count + threads - 1) / threads;
  return static_cast<unsigned>(blocks < 1 ? 1 : blocks > 65535 ? 65535 : blocks);
}

inline unsigned a_block_a_row(std::int64_t rows) {
  return static_cast<unsigned>(rows < 1 ? 1 : rows > 65535 ? 65535 : rows);
}

__device__ inline std::int64_t first_index() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline std::int64_t stride() {
  return static_cast<std::int64_t>(gridDim.x) * blockDim.x;
}

__device__ inline void leave(Fault fault) {
  if (fault.cell != nullptr) atomicCAS(fault.cell, 0ull, fault.number);
}

// Poison is all ones (numbers.hpp): NaN in every floating-point type, -1 in integers.
__device__ inline double load(At p, std::int64_t i, Fault fault) {
  const std::int64_t at = p.at + i;
  switch (p.type) {
    case Type::fp64: {
      const auto bits = static_cast<const unsigned long long*>(p.memory)[at];
      if (bits == ~0ull) leave(fault);
      return __longlong_as_double(static_cast<long long>(bits));
    }
    case Type::fp32: {
      const auto bits = static_cast<const unsigned*>(p.memory)[at];
      if (bits == ~0u) leave(fault);
      return __uint_as_float(bits);
    }
    case Type::fp16: {
      const auto bits = static_cast<const unsigned short*>(p.memory)[at];
      if (bits == 0xffffu) leave(fault);
      return __half2float(__ushort_as_half(bits));
    }
    case Type::bf16: {
      const auto bits = static_cast<const unsigned short*>(p.memory)[at];
      if (bits == 0xffffu) leave(fault);
      return __bfloat162float(__ushort_as_bfloat16(bits));
    }
    case Type::int64: {
      const auto value = static_cast<const long long*>(p.memory)[at];
      if (value == -1) leave(fault);
      return static_cast<double>(value);
    }
    case Type::int32: {
      const auto value = static_cast<const int*>(p.memory)[at];
      if (value == -1) leave(fault);
      return value;
    }
    case Type::int8: {
      const auto value = static_cast<const signed char*>(p.memory)[at];
      if (value == -1) leave(fault);
      return value;
    }
  }
  return 0;
}

__device__ inline void store(At p, std::int64_t i, double value) {
  const std::int64_t at = p.at + i;
  switch (p.type) {
    case Type::fp64: static_cast<double*>(p.memory)[at] = value; break;
    case Type::fp32: static_cast<float*>(p.memory)[at] = static_cast<float>(value); break;
    // By way of float, as the CPU executor rounds.
    case Type::fp16:
      static_cast<__half*>(p.memory)[at] = __float2half_rn(static_cast<float>(value));
      break;
    case Type::bf16:
      static_cast<__nv_bfloat16*>(p.memory)[at] = __float2bfloat16_rn(static_cast<float>(value));
      break;
    case Type::int64: static_cast<long long*>(p.memory)[at] = static_cast<long long>(value); break;
    case Type::int32: static_cast<int*>(p.memory)[at] = static_cast<int>(value); break;
    case Type::int8:
      static_cast<signed char*>(p.memory)[at] = static_cast<signed char>(value);
      break;
  }
}

// One block; a tree in shared memory.
__device__ inline double block_sum(double mine) {
  __shared__ double parts[threads];
  parts[threadIdx.x] = mine;
  __syncthreads();
  for (unsigned half = threads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) parts[threadIdx.x] += parts[threadIdx.x + half];
    __syncthreads();
  }
  const double sum = parts[0];
  __syncthreads();
  return sum;
}
__device__ inline double block_max(double mine) {
  __shared__ double parts[threads];
  parts[threadIdx.x] = mine;
  __syncthreads();
  for (unsigned half = threads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half)
      parts[threadIdx.x] = fmax(parts[threadIdx.x], parts[threadIdx.x + half]);
    __syncthreads();
  }
  const double top = parts[0];
  __syncthreads();
  return top;
}

}  // namespace stepcast::cuda
