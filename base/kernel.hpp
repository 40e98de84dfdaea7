#pragma once
// One GPU kernel, by shape. It holds no time: sim/kernels turns it into seconds on a given GPU.
// Models list their work in these, schedules carry them, engines and executors run them.

#include <cstdint>

#include "base/name.hpp"
#include "base/units.hpp"

namespace stepcast {

enum class KernelKind : std::uint8_t {
  gemm,                // C[m,n] = A[m,k] B[k,n], `batch` times
  attention_forward,   // batch x heads sequences of m queries on n keys, head size k
  attention_backward,  // the same shape; 5 matrix products (scores again) where fused
  convolution,         // an implicit GEMM of m, n, k; its bytes are those of the images
  memory,              // bound by bytes moved: norms, activations, casts, copies, optimizer
};

struct Kernel {
  KernelKind kind = KernelKind::memory;
  Dtype dtype = Dtype::bf16;  // of the operands of the matrix products, or of the tensor moved
  bool causal = false;        // attention: only the lower triangle is needed
  bool fused = true;          // attention: FlashAttention-like; false: scores go through memory
  std::int64_t m = 0;         // gemm rows; attention query length
  std::int64_t n = 0;         // gemm columns; attention key length
  std::int64_t k = 0;         // gemm inner size; attention head size
  std::int64_t batch = 1;     // gemm batch; attention sequences
  std::int64_t heads = 1;     // attention query heads
  std::int64_t kv_heads = 1;  // attention key-value heads
  Bytes bytes_read = 0;       // HBM traffic; for gemm and attention the operands once each
  Bytes bytes_written = 0;
  int launches = 1;  // CUDA kernels this stands for (unfused elementwise chains: several)
  Name name;         // "qkv_proj", "rmsnorm", "adamw"

  friend bool operator==(const Kernel& a, const Kernel& b) = default;
};

Kernel gemm(Name name, Dtype dtype, std::int64_t m, std::int64_t n, std::int64_t k,
            std::int64_t batch = 1);
// A square convolution over square images.
struct Convolution {
  std::int64_t batch = 0;  // images
  std::int64_t in_channels = 0;
  std::int64_t out_channels = 0;
  std::int64_t kernel = 1;    // pixels a side
  std::int64_t stride = 1;    // pixels
  std::int64_t in_side = 0;   // pixels
  std::int64_t out_side = 0;  // pixels

  std::int64_t in_elements() const { return batch * in_channels * in_side * in_side; }
  std::int64_t out_elements() const { return batch * out_channels * out_side * out_side; }
  std::int64_t weights() const { return out_channels * in_channels * kernel * kernel; }
};

enum class ConvolutionPass : std::uint8_t { forward, input_gradient, weight_gradient };

// As a matrix product that nobody writes out (implicit GEMM), K the kernel's side, P the output's
// pixels of all images:
//   forward          m = P            n = out channels       k = K^2 in channels
//   input gradient   m = stride^2 P   n = in channels        k = K^2 out channels / stride^2
//   weight gradient  m = out channels n = K^2 in channels    k = P
// All three are 2 P K^2 in out FLOPs. A 1x1 of stride 2 touches a quarter of its input's pixels:
// there the input gradient has m = P and k = out channels.
// Example: 3x3, 64 to 64 channels, 56x56, 256 images: m = 802,816, n = 64, k = 576; 59.2 GFLOP.
Kernel convolution(Name name, Dtype dtype, const Convolution& shape, ConvolutionPass pass);

Kernel memory_bound(Name name, Dtype dtype, Bytes read, Bytes written, int launches = 1);
Kernel attention(Name name, KernelKind direction, Dtype dtype, std::int64_t batch,
                 std::int64_t heads, std::int64_t kv_heads, std::int64_t queries, std::int64_t keys,
                 std::int64_t head_size, bool causal, bool fused = true);

// Floating point operations by the usual convention: 2 m n k batch for a GEMM or a convolution;
// attention counts
// the full square (the PaLM convention, causal or not): 4 batch heads q k d forward, 8 backward.
// This is what MFU is computed from.
double model_flops(const Kernel& kernel);
// What the hardware executes: causal attention half the square, fused backward 5 products instead
// of 4. Memory-bound kernels count 0.
double hardware_flops(const Kernel& kernel);

}  // namespace stepcast
