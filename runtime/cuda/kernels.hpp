#pragma once
// Kernels of a model's true shapes, for replay and calibration: they compute on random data, so
// that they take the time (and the power) that the model's would.
//
//   gemm, convolution   cuBLASLt, its first heuristic; a convolution as the product it is
//   attention           cuDNN's fused SDPA; where it is not present or refuses the shape, a batched
//                       product, a softmax and another product, and the label says so
//   memory-bound        a kernel that reads and writes the true number of bytes, as often as the
//                       kernel stands for launches

#include <string>

#include "base/kernel.hpp"
#include "runtime/cuda/gpu.hpp"

namespace stepcast::runtime {

struct GpuKernel;

class GpuKernels {
 public:
  virtual ~GpuKernels() = default;

  // Operands of all kernels lie in two pieces of device memory of the calling thread's device: what
  // is read, filled with random numbers, and what is written. Apart, because what a kernel leaves
  // is not random any more: zeros, infinities and NaN take less power, and so a higher clock. To be
  // called before prepare().
  struct Room {
    Bytes read = 0, written = 0;
  };
  virtual void room(Room size) = 0;
  static Room room_of(const Kernel& kernel);  // what one kernel needs

  // The kernel of this shape; equal shapes give the same one. Lives as long as the table.
  virtual GpuKernel* prepare(const Kernel& kernel) = 0;
  // What runs: "cuBLASLt", "cuDNN SDPA", "batched GEMM and softmax (cuDNN: not found)", "copy".
  virtual std::string label(const GpuKernel* kernel) = 0;
  virtual void launch(GpuKernel* kernel, GpuStream* stream) = 0;
};

}  // namespace stepcast::runtime
