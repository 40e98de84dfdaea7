#include "base/kernel.hpp"

#include <doctest/doctest.h>

#include "base/error.hpp"

using namespace stepcast;

TEST_CASE("a GEMM does two operations a multiply-add and moves each operand once") {
  const Kernel k = gemm("up", Dtype::bf16, 3, 5, 7, 11);
  CHECK(model_flops(k) == 2.0 * 3 * 5 * 7 * 11);
  CHECK(hardware_flops(k) == model_flops(k));
  CHECK(k.bytes_read == 2 * 11 * (3 * 7 + 7 * 5));
  CHECK(k.bytes_written == 2 * 11 * 3 * 5);
  CHECK(k.launches == 1);
}

TEST_CASE("the flops of a large GEMM do not overflow") {
  // 2 * 131072 * 128256 * 16384 = 5.508e14, and a hundred of them in a batch.
  const Kernel k = gemm("head", Dtype::bf16, 131072, 128256, 16384, 100);
  CHECK(model_flops(k) == doctest::Approx(5.5085e16).epsilon(1e-4));
}

TEST_CASE("the three passes of a convolution do the same operations on the same images") {
  // 3x3 of stride 2, 64 to 128 channels, 56 to 28 pixels, 2 images: 2 * 784 * 2 * 9 * 64 * 128.
  const Convolution shape{2, 64, 128, 3, 2, 56, 28};
  const double flops = 2.0 * 1568 * 9 * 64 * 128;
  const Kernel forward = convolution("c", Dtype::bf16, shape, ConvolutionPass::forward);
  CHECK(forward.m == 1568);
  CHECK(forward.n == 128);
  CHECK(forward.k == 576);
  const Kernel inputs = convolution("c", Dtype::bf16, shape, ConvolutionPass::input_gradient);
  CHECK(inputs.m == 4 * 1568);
  CHECK(inputs.n == 64);
  CHECK(inputs.k == 9 * 128 / 4);
  const Kernel weights = convolution("c", Dtype::bf16, shape, ConvolutionPass::weight_gradient);
  CHECK(weights.m == 128);
  CHECK(weights.n == 576);
  CHECK(weights.k == 1568);
  for (const Kernel& k : {forward, inputs, weights}) CHECK(model_flops(k) == flops);
  const Bytes in = 2 * 2 * 64 * 56 * 56, out = 2 * 2 * 128 * 28 * 28, filter = 2 * 9 * 64 * 128;
  CHECK(forward.bytes_read == in + filter);
  CHECK(forward.bytes_written == out);
  CHECK(inputs.bytes_read == out + filter);
  CHECK(inputs.bytes_written == in);
  CHECK(weights.bytes_read == in + out);
  CHECK(weights.bytes_written == filter);
}

TEST_CASE("a 1x1 convolution of stride 2 touches a quarter of its input") {
  const Convolution shape{1, 256, 512, 1, 2, 56, 28};
  const Kernel forward = convolution("c", Dtype::bf16, shape, ConvolutionPass::forward);
  CHECK(forward.bytes_read == 2 * (256 * 784 + 256 * 512));
  const Kernel inputs = convolution("c", Dtype::bf16, shape, ConvolutionPass::input_gradient);
  CHECK(inputs.m == 784);
  CHECK(inputs.k == 512);
}

TEST_CASE("a memory-bound kernel has bytes and no flops") {
  const Kernel k = memory_bound("norm", Dtype::fp32, 1000, 500, 3);
  CHECK(model_flops(k) == 0);
  CHECK(hardware_flops(k) == 0);
  CHECK(k.bytes_read == 1000);
  CHECK(k.bytes_written == 500);
  CHECK(k.launches == 3);
}

// 2 sequences, 8 query heads on 2 key-value heads, 64 queries on 32 keys, head size 16.
// One product of the square is 2 * 2*8*64*32*16 = 1,048,576 operations.
TEST_CASE("attention forward is two products: scores and values") {
  const Kernel k =
      attention("a", KernelKind::attention_forward, Dtype::bf16, 2, 8, 2, 64, 32, 16, false);
  CHECK(model_flops(k) == 2 * 1048576.0);
  CHECK(hardware_flops(k) == 2 * 1048576.0);
}

TEST_CASE("fused attention backward executes five products and is credited four") {
  const Kernel k =
      attention("a", KernelKind::attention_backward, Dtype::bf16, 2, 8, 2, 64, 32, 16, false);
  CHECK(model_flops(k) == 4 * 1048576.0);
  CHECK(hardware_flops(k) == 5 * 1048576.0);
}

TEST_CASE("causal masking halves what fused attention executes, not what it is credited") {
  const Kernel k =
      attention("a", KernelKind::attention_backward, Dtype::bf16, 2, 8, 2, 64, 64, 16, true);
  CHECK(model_flops(k) == 8 * 1048576.0);
  CHECK(hardware_flops(k) == 5 * 1048576.0);
}

TEST_CASE("unfused attention executes the full square even where the mask is causal") {
  const Kernel k =
      attention("a", KernelKind::attention_backward, Dtype::bf16, 2, 8, 2, 64, 32, 16, true, false);
  CHECK(hardware_flops(k) == 4 * 1048576.0);
}

TEST_CASE("fused attention moves queries, keys and values once, grouped heads fewer keys") {
  const Bytes query = 2 * 2 * 8 * 64 * 16;  // q, o and their gradients
  const Bytes key = 2 * 2 * 2 * 32 * 16;    // k, v and theirs: 2 heads instead of 8
  const Kernel f =
      attention("a", KernelKind::attention_forward, Dtype::bf16, 2, 8, 2, 64, 32, 16, false);
  CHECK(f.bytes_read == query + 2 * key);
  CHECK(f.bytes_written == query);
  const Kernel b =
      attention("a", KernelKind::attention_backward, Dtype::bf16, 2, 8, 2, 64, 32, 16, false);
  CHECK(b.bytes_read == 3 * query + 2 * key);
  CHECK(b.bytes_written == query + 2 * key);
}

TEST_CASE("unfused attention moves the square of scores through memory as well") {
  const Bytes square = 2 * 2 * 8 * 64 * 32;
  for (const auto direction : {KernelKind::attention_forward, KernelKind::attention_backward}) {
    const Kernel fused = attention("a", direction, Dtype::bf16, 2, 8, 2, 64, 32, 16, false);
    const Kernel plain = attention("a", direction, Dtype::bf16, 2, 8, 2, 64, 32, 16, false, false);
    const bool forward = direction == KernelKind::attention_forward;
    // Forward: scores written, read by the softmax, probabilities written, read for the values.
    // Backward: dP written; P and dP read, dS written; P read for dV, dS read for dQ and for dK.
    CHECK(plain.bytes_read - fused.bytes_read == (forward ? 2 : 5) * square);
    CHECK(plain.bytes_written - fused.bytes_written == 2 * square);
    CHECK(plain.launches == (forward ? 3 : 5));
  }
}

TEST_CASE("attention has two directions, anything else is our own mistake") {
  CHECK_THROWS_AS(attention("a", KernelKind::gemm, Dtype::bf16, 1, 1, 1, 1, 1, 1, false),
                  std::logic_error);
}
