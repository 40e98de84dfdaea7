// Hand answers of the kernel model on parts made of round numbers.
#include "sim/kernels/kernel_cost.hpp"

#include <doctest/doctest.h>

#include "base/error.hpp"

using namespace stepcast;

namespace {

constexpr double floor_s = 1.5e-6;

// Hopper's figures: tiles 0.86, sustained 0.72 at 700 W, memory 0.84.
Gpu round_gpu() {
  Gpu gpu;
  gpu.name = "h100-sxm";
  gpu.compute_capability = 90;
  gpu.sm_count = 100;
  gpu.memory_bytes = 80'000'000'000;
  gpu.memory_gbps = 1000;
  gpu.power_watts = 700;
  gpu.peak_bf16 = 989.4e12;
  return gpu;
}

SoftwareProfile plain() {
  SoftwareProfile profile;
  profile.attention_kernel = AttentionKernel::best;
  return profile;
}

}  // namespace

TEST_CASE("a long product runs at the rate that the power limit sustains") {
  // 8192^3: 2*8192^3 FLOP at 0.72 * 989.4e12 FLOP/s; tiles: 2048 of 256x128 in 21 waves of 100,
  // each 2*32768*(8192+192) / (9.894e12*0.86) s.
  const double flops = 2.0 * 8192 * 8192 * 8192;
  const double powered = flops / (0.72 * 989.4e12);
  const double waves = 21 * 2.0 * 32768 * 8384 / (9.894e12 * 0.86);
  CHECK(powered > waves);
  const KernelCost cost = cost_of(gemm("g", Dtype::bf16, 8192, 8192, 8192), round_gpu(), plain());
  CHECK(cost.seconds == doctest::Approx(floor_s + powered).epsilon(1e-12));
  CHECK(cost.sm_seconds == doctest::Approx(powered).epsilon(1e-12));
  CHECK(cost.bound == KernelBound::compute);
  CHECK(cost.hbm_seconds == doctest::Approx(3 * 8192.0 * 8192 * 2 / (0.84 * 1e12)));
  CHECK(cost.provenance == Provenance::modelled);
}

TEST_CASE("tiles beyond the SMs cost another wave") {
  Gpu gpu = round_gpu();
  gpu.memory_gbps = 8000;
  const KernelModel model(gpu, plain());
  const double tile = 2.0 * 32768 * (4096 + 192) / (9.894e12 * 0.86);
  // 60 tiles of 256x128 take one wave of the 100 SMs, 40 of which idle.
  const KernelCost one = model.cost(gemm("g", Dtype::bf16, 256 * 6, 128 * 10, 4096));
  CHECK(one.seconds == doctest::Approx(floor_s + tile).epsilon(1e-12));
  // 101 tiles would take two. 128x128: 202 tiles, 3 waves of half a tile at 0.9, 1.667 tiles.
  // 128x64: 404 tiles, 5 waves of a quarter at 0.75, 1.667 tiles too.
  const KernelCost more = model.cost(gemm("g", Dtype::bf16, 256 * 101, 128, 4096));
  CHECK(more.seconds == doctest::Approx(floor_s + tile * 5 / 3).epsilon(1e-12));
}

TEST_CASE("a product that reads much and computes little is bound by memory") {
  // 65536 x 16384 by k = 16: C alone is 2.1 GB.
  const KernelCost cost = cost_of(gemm("g", Dtype::bf16, 65536, 16384, 16), round_gpu(), plain());
  const double bytes = 2.0 * (65536.0 * 16 + 16.0 * 16384 + 65536.0 * 16384);
  CHECK(cost.bound == KernelBound::memory);
  CHECK(cost.seconds == doctest::Approx(floor_s + bytes / 0.84e12).epsilon(1e-12));
}

TEST_CASE("a memory-bound kernel moves its bytes at 84 percent of Hopper's bandwidth") {
  const KernelCost cost =
      cost_of(memory_bound("m", Dtype::bf16, 420'000'000, 420'000'000, 3), round_gpu(), plain());
  CHECK(cost.seconds == doctest::Approx(3 * floor_s + 1e-3).epsilon(1e-12));
  CHECK(cost.hbm_seconds == doctest::Approx(1e-3).epsilon(1e-12));
  // 0.84e12 B/s * 0.7 us in flight over 100 SMs * 32 KiB = 0.1794 of the SMs.
  CHECK(cost.sm_seconds == doctest::Approx(1e-3 * 588000.0 / 3276800.0).epsilon(1e-12));
  CHECK(cost.bound == KernelBound::memory);
  const KernelCost tiny = cost_of(memory_bound("m", Dtype::bf16, 64, 64), round_gpu(), plain());
  CHECK(tiny.bound == KernelBound::latency);
}

TEST_CASE("flash attention counts half the square where causal and speeds up with length") {
  // B1 H8 S4096 d128 causal: 4*8*4096^2*128/2 FLOP at 0.56 * 4096/(4096+1600) of the peak.
  const Kernel k =
      attention("a", KernelKind::attention_forward, Dtype::bf16, 1, 8, 8, 4096, 4096, 128, true);
  const double flops = 4.0 * 8 * 4096 * 4096 * 128 / 2;
  const double rate = 989.4e12 * 0.56 * 4096 / (4096 + 1600);
  const KernelCost best = cost_of(k, round_gpu(), plain());
  CHECK(best.seconds == doctest::Approx(floor_s + flops / rate).epsilon(1e-12));
  SoftwareProfile flash2 = plain();
  flash2.attention_kernel = AttentionKernel::flash2;
  CHECK(cost_of(k, round_gpu(), flash2).seconds ==
        doctest::Approx(floor_s + flops / (0.6 * rate)).epsilon(1e-12));
  // Backward: five products instead of two, at 0.85 of the rate.
  const Kernel b =
      attention("a", KernelKind::attention_backward, Dtype::bf16, 1, 8, 8, 4096, 4096, 128, true);
  CHECK(cost_of(b, round_gpu(), plain()).seconds ==
        doctest::Approx(floor_s + 2.5 * flops / (0.85 * rate)).epsilon(1e-12));
}

TEST_CASE("unfused attention pays for the scores that go through memory") {
  const Kernel k = attention("a", KernelKind::attention_forward, Dtype::bf16, 1, 8, 8, 4096, 4096,
                             128, true, false);
  const double flops = 4.0 * 8 * 4096 * 4096 * 128;
  const double bytes = static_cast<double>(k.bytes_read + k.bytes_written);
  const KernelCost cost = cost_of(k, round_gpu(), plain());
  CHECK(cost.seconds ==
        doctest::Approx(k.launches * floor_s + flops / (0.72 * 989.4e12) + bytes / 0.84e12)
            .epsilon(1e-12));
  CHECK(cost.bound == KernelBound::memory);
}

TEST_CASE("a part with half the watts sustains 0.707 of the rate") {
  Gpu half = round_gpu();
  half.power_watts = 350;
  const Kernel k = gemm("g", Dtype::bf16, 16384, 16384, 16384);
  const double full = cost_of(k, round_gpu(), plain()).seconds - floor_s;
  CHECK(cost_of(k, half, plain()).seconds - floor_s ==
        doctest::Approx(full * 1.41421356237).epsilon(1e-9));
}

TEST_CASE("a part that nobody measured is extrapolated, and a missing peak is an error") {
  Gpu gpu = round_gpu();
  gpu.name = "h999";
  CHECK(cost_of(gemm("g", Dtype::bf16, 128, 128, 128), gpu, plain()).provenance ==
        Provenance::extrapolated);
  CHECK_THROWS_AS(cost_of(gemm("g", Dtype::fp8, 128, 128, 128), gpu, plain()), InputError);
}

TEST_CASE("no kernel is faster when it is larger") {
  const KernelModel model(round_gpu(), plain());
  for (const std::int64_t m : {64, 500, 4096, 20000}) {
    for (const std::int64_t n : {64, 500, 4096, 20000}) {
      for (const std::int64_t k : {64, 500, 4096}) {
        const double t = model.cost(gemm("g", Dtype::bf16, m, n, k)).seconds;
        CHECK(model.cost(gemm("g", Dtype::bf16, m, n, k + 64)).seconds >= t);
        CHECK(model.cost(gemm("g", Dtype::bf16, 2 * m, n, k)).seconds >= t);
        CHECK(model.cost(gemm("g", Dtype::bf16, m, n, k, 2)).seconds >= t);
      }
    }
  }
}

TEST_CASE("a convolution's weight gradient is split over the SMs that its one tile leaves idle") {
  // 64 to 64 channels, 1x1, 32 images of 56^2: 64 x 64 over 100,352 pixels. Unsplit one tile of
  // 64 x 128 runs 2 * 8,192 * 100,544 / (9.894e12 * 0.86 * 0.75) s = 258 us on one SM. In 16 parts
  // 16.6 us, and then memory: both images 25,690,112 B, weights 8,192 B, 16 fp32 sums written and
  // read 524,288 B at 840 GB/s: 31.2 us. 8 parts take 32.7 us, 32 move more.
  const Convolution shape{32, 64, 64, 1, 1, 56, 56};
  const Kernel kernel = convolution("c", Dtype::bf16, shape, ConvolutionPass::weight_gradient);
  const KernelCost cost = cost_of(kernel, round_gpu(), plain());
  CHECK(cost.seconds ==
        doctest::Approx(2 * floor_s + (25'690'112.0 + 8'192 + 524'288) / 840e9).epsilon(1e-9));
  CHECK(cost.bound == KernelBound::memory);
  CHECK(cost_of(gemm("g", Dtype::bf16, 64, 64, 100'352), round_gpu(), plain()).seconds > 250e-6);
}

TEST_CASE("a long convolution runs as the matrix product that it is") {
  // 512 to 512 channels, 3x3, 256 images of 28^2: m 200,704, n 512, k 4,608: 9.5e11 FLOP.
  const Convolution shape{256, 512, 512, 3, 1, 28, 28};
  const KernelCost conv =
      cost_of(convolution("c", Dtype::bf16, shape, ConvolutionPass::forward), round_gpu(), plain());
  const KernelCost product =
      cost_of(gemm("g", Dtype::bf16, 200'704, 512, 4'608), round_gpu(), plain());
  CHECK(conv.bound == KernelBound::compute);
  CHECK(conv.seconds == doctest::Approx(product.seconds).epsilon(0.2));
  CHECK(conv.sm_seconds <= conv.seconds);
}
