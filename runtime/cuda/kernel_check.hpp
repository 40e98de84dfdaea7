#pragma once
// Each call of GpuMath on random numbers, beside the same in float64 on the host.
//
//   error = ‖device - host‖ / ‖host‖, of the norm of what the call writes
//
// Accepted: 1e-13 in float64, 1e-5 in float32 (sums of some hundred products), of bf16 and fp16 one
// rounding, 2^-8 and 2^-11. Tested by tests/unit/cuda/kernel_check_test.cpp, with the fake as
// device.

#include <string>
#include <vector>

#include "runtime/cuda/plugin.hpp"

namespace stepcast::runtime {

struct KernelCheck {
  std::string name;  // "gemm, a transposed, fp32"
  double error = 0;
  double accepted = 0;
  bool passed() const { return error <= accepted; }
};

// On the calling thread's device.
std::vector<KernelCheck> check_kernels(const GpuTables& tables);

}  // namespace stepcast::runtime
