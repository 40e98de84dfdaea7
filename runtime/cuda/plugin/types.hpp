#pragma once
// Dtype and places, as device code reads them.

#include "runtime/cuda/math.hpp"
#include "runtime/cuda/plugin/small_kernels.hpp"

namespace stepcast::cuda {

inline Type type_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::fp64: return Type::fp64;
    case Dtype::fp32:
    case Dtype::tf32: return Type::fp32;
    case Dtype::fp16: return Type::fp16;
    case Dtype::bf16: return Type::bf16;
    case Dtype::int64: return Type::int64;
    case Dtype::int32: return Type::int32;
    case Dtype::fp8:  // moved, never computed with
    case Dtype::int8: break;
  }
  return Type::int8;
}
inline At at(const runtime::GpuPlace& place) {
  return {place.memory, type_of(place.dtype), place.at};
}
inline Factor factor_of(const runtime::GpuFactor& factor) {
  return {factor.number, at(factor.times)};
}
inline Fault fault_of(const runtime::FaultCell& cell) {
  return {reinterpret_cast<unsigned long long*>(cell.cell),
          static_cast<unsigned long long>(cell.number)};
}

}  // namespace stepcast::cuda
