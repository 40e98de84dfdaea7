#include "base/kernel.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace stepcast {

Kernel gemm(Name name, Dtype dtype, std::int64_t m, std::int64_t n, std::int64_t k,
            std::int64_t batch) {
  const Bytes size = bytes_per_element(dtype);
  Kernel kernel;
  kernel.kind = KernelKind::gemm;
  kernel.dtype = dtype;
  kernel.m = m;
  kernel.n = n;
  kernel.k = k;
  kernel.batch = batch;
  kernel.bytes_read = size * batch * (m * k + k * n);
  kernel.bytes_written = size * batch * m * n;
  kernel.name = name;
  return kernel;
}

Kernel convolution(Name name, Dtype dtype, const Convolution& c, ConvolutionPass pass) {
  const Bytes size = bytes_per_element(dtype);
  const std::int64_t area = c.kernel * c.kernel;
  const std::int64_t pixels = c.batch * c.out_side * c.out_side;
  // Input pixels that the windows touch: all of them, or one in stride^2 for 1x1.
  const std::int64_t touched =
      c.in_channels * std::min(c.batch * c.in_side * c.in_side, area * pixels);
  Kernel kernel;
  kernel.kind = KernelKind::convolution;
  kernel.dtype = dtype;
  kernel.name = name;
  switch (pass) {
    case ConvolutionPass::forward:
      kernel.m = pixels;
      kernel.n = c.out_channels;
      kernel.k = area * c.in_channels;
      kernel.bytes_read = size * (touched + c.weights());
      kernel.bytes_written = size * c.out_elements();
      break;
    case ConvolutionPass::input_gradient: {
      // Each input pixel meets the taps of its own phase only, one in stride^2.
      std::int64_t phases = c.stride * c.stride;
      if (area < phases || (area * c.out_channels) % phases != 0) phases = 1;
      kernel.m = phases * pixels;
      kernel.n = c.in_channels;
      kernel.k = area * c.out_channels / phases;
      kernel.bytes_read = size * (c.out_elements() + c.weights());
      kernel.bytes_written = size * c.in_elements();
      break;
    }
    case ConvolutionPass::weight_gradient:
      kernel.m = c.out_channels;
      kernel.n = area * c.in_channels;
      kernel.k = pixels;
      kernel.bytes_read = size * (touched + c.out_elements());
      kernel.bytes_written = size * c.weights();
      break;
  }
  return kernel;
}

Kernel memory_bound(Name name, Dtype dtype, Bytes read, Bytes written, int launches) {
  Kernel kernel;
  kernel.kind = KernelKind::memory;
  kernel.dtype = dtype;
  kernel.bytes_read = read;
  kernel.bytes_written = written;
  kernel.launches = launches;
  kernel.name = name;
  return kernel;
}

Kernel attention(Name name, KernelKind direction, Dtype dtype, std::int64_t batch,
                 std::int64_t heads, std::int64_t kv_heads, std::int64_t queries, std::int64_t keys,
                 std::int64_t head_size, bool causal, bool fused) {
  STEPCAST_ASSERT(
      direction == KernelKind::attention_forward || direction == KernelKind::attention_backward,
      "attention has two directions");
  const bool backward = direction == KernelKind::attention_backward;
  const Bytes size = bytes_per_element(dtype);
  Kernel kernel;
  kernel.kind = direction;
  kernel.dtype = dtype;
  kernel.causal = causal;
  kernel.fused = fused;
  kernel.m = queries;
  kernel.n = keys;
  kernel.k = head_size;
  kernel.batch = batch;
  kernel.heads = heads;
  kernel.kv_heads = kv_heads;
  const Bytes query = size * batch * heads * queries * head_size;
  const Bytes key = size * batch * kv_heads * keys * head_size;
  // forward: q, k, v in, o out; backward: q, k, v, o, do in, dq, dk, dv out.
  kernel.bytes_read = backward ? 3 * query + 2 * key : query + 2 * key;
  kernel.bytes_written = backward ? query + 2 * key : query;
  if (!fused) {
    // Scores and probabilities, heads x queries x keys, go through memory. Forward, 3 kernels:
    // scores written; read by the softmax, probabilities written; read for the values. Backward, 5:
    // P read for dV; dP written; P and dP read by the softmax, dS written; dS read for dQ, for dK.
    const Bytes scores = size * batch * heads * queries * keys;
    kernel.bytes_read += backward ? 5 * scores : 2 * scores;
    kernel.bytes_written += 2 * scores;
    kernel.launches = backward ? 5 : 3;
  }
  kernel.name = name;
  return kernel;
}

namespace {

double square(const Kernel& kernel) {  // multiply-adds of one product, times 2
  return 2.0 * static_cast<double>(kernel.batch) * static_cast<double>(kernel.heads) *
         static_cast<double>(kernel.m) * static_cast<double>(kernel.n) *
         static_cast<double>(kernel.k);
}

}  // namespace

double model_flops(const Kernel& kernel) {
  switch (kernel.kind) {
    case KernelKind::gemm:
    case KernelKind::convolution:
      return 2.0 * static_cast<double>(kernel.m) * static_cast<double>(kernel.n) *
             static_cast<double>(kernel.k) * static_cast<double>(kernel.batch);
    case KernelKind::attention_forward: return 2.0 * square(kernel);
    case KernelKind::attention_backward: return 4.0 * square(kernel);
    case KernelKind::memory: return 0.0;
  }
  return 0.0;
}

double hardware_flops(const Kernel& kernel) {
  const double part = kernel.causal && kernel.fused ? 0.5 : 1.0;
  switch (kernel.kind) {
    case KernelKind::gemm:
    case KernelKind::convolution: return model_flops(kernel);
    case KernelKind::attention_forward: return 2.0 * square(kernel) * part;
    case KernelKind::attention_backward: return (kernel.fused ? 5.0 : 4.0) * square(kernel) * part;
    case KernelKind::memory: return 0.0;
  }
  return 0.0;
}

}  // namespace stepcast
