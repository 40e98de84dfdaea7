// Hand answers of the kernel model on parts made of round numbers.
#include "sim/kernels/kernel_cost.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "base/error.hpp"
#include "sim/kernels/shape_tables.hpp"

using namespace stepcast;

namespace {

constexpr double floor_s = 1.5e-6;

// A Hopper that nobody measured: its figures are H100's, its shapes no table's.
Gpu round_gpu() {
  Gpu gpu;
  gpu.name = "round";
  gpu.compute_capability = 90;
  gpu.sm_count = 100;
  gpu.memory_bytes = 80'000'000'000;
  gpu.memory_gbps = 1000;
  gpu.power_watts = 700;
  gpu.peak_bf16 = 989.4e12;
  return gpu;
}

constexpr double memory_rate = 0.898e12;  // Hopper's streams

SoftwareProfile plain() {
  SoftwareProfile profile;
  profile.attention_kernel = AttentionKernel::best;
  return profile;
}

}  // namespace

TEST_CASE("a product of a part that nobody measured is the model with its family's figures") {
  const Kernel k = gemm("g", Dtype::bf16, 8192, 8192, 8192);
  const GemmTime model =
      gemm_time(fit_of("h100-sxm")->gemm,
                {.peak_flops = 989.4e12, .sm_count = 100, .memory_rate = memory_rate},
                {8192, 8192, 8192, 1, 3 * 8192.0 * 8192 * 2}, Clocks::settled);
  const KernelCost cost = cost_of(k, round_gpu(), plain());
  CHECK(cost.seconds == doctest::Approx(floor_s + model.work).epsilon(1e-12));
  CHECK(cost.bound == KernelBound::compute);
  CHECK(cost.basis == KernelBasis::scaled);
  CHECK(cost.provenance == Provenance::extrapolated);
  // All SMs are busy while it computes, and it reads and writes 3 * 128 MiB.
  CHECK(cost.sm_seconds == doctest::Approx(model.work * model.busy));
  CHECK(cost.hbm_seconds == doctest::Approx(3 * 8192.0 * 8192 * 2 / memory_rate));
}

TEST_CASE("a measured shape is measured, one between is interpolated, a part of its die scaled") {
  const Gpu h100 = load_gpu("h100-sxm");
  const KernelModel benchmark(h100, plain(), Clocks::benchmark);
  const auto rows = measured_gemms("h100-sxm");
  int near = 0;
  for (const MeasuredGemm& row : rows) {
    const KernelCost cost = benchmark.cost(kernel_of(row));
    CHECK(cost.basis == KernelBasis::measured);
    near += std::abs(cost.seconds / (row.us * 1e-6) - 1) < 0.05 ? 1 : 0;
  }
  // A table is smoothed, not repeated: H100's large shapes scatter by 5 percent by themselves.
  CHECK(near > static_cast<int>(rows.size() * 8 / 10));
  const Kernel between = gemm("g", Dtype::bf16, 8192, 2048, 8200);
  CHECK(benchmark.cost(between).basis == KernelBasis::interpolated);
  CHECK(benchmark.cost(between).provenance == Provenance::modelled);
  CHECK(KernelModel(load_gpu("h100-96gb-hbm2e"), plain()).cost(between).basis ==
        KernelBasis::scaled);
  CHECK(benchmark.cost(gemm("g", Dtype::bf16, 8192, 2048, 8192, 4)).basis == KernelBasis::fitted);
  CHECK(benchmark.cost(gemm("g", Dtype::tf32, 8192, 2048, 8192)).basis == KernelBasis::scaled);
}

TEST_CASE("inside a step a short product has no lead over the power limit") {
  for (const std::string& gpu : measured_gpus()) {
    const KernelModel step(load_gpu(gpu), plain()),
        bench(load_gpu(gpu), plain(), Clocks::benchmark);
    for (const MeasuredGemm& row : measured_gemms(gpu)) {
      CHECK(step.cost(kernel_of(row)).seconds >= bench.cost(kernel_of(row)).seconds * (1 - 1e-12));
    }
  }
}

TEST_CASE("a product that reads much and computes little is bound by memory") {
  // 65536 x 16384 by k = 16: C alone is 2.1 GB.
  const KernelCost cost = cost_of(gemm("g", Dtype::bf16, 65536, 16384, 16), round_gpu(), plain());
  const double bytes = 2.0 * (65536.0 * 16 + 16.0 * 16384 + 65536.0 * 16384);
  CHECK(cost.bound == KernelBound::memory);
  CHECK(cost.hbm_seconds == doctest::Approx(bytes / memory_rate).epsilon(1e-12));
  CHECK(cost.seconds >= floor_s + bytes / memory_rate);
}

TEST_CASE("a memory-bound kernel moves its bytes at the rate that Hopper's streams reach") {
  const KernelCost cost =
      cost_of(memory_bound("m", Dtype::bf16, 449'000'000, 449'000'000, 3), round_gpu(), plain());
  CHECK(cost.seconds == doctest::Approx(3 * floor_s + 1e-3).epsilon(1e-12));
  CHECK(cost.hbm_seconds == doctest::Approx(1e-3).epsilon(1e-12));
  // 0.898e12 B/s * 0.7 us in flight over 100 SMs * 32 KiB = 0.1918 of the SMs.
  CHECK(cost.sm_seconds == doctest::Approx(1e-3 * 628600.0 / 3276800.0).epsilon(1e-12));
  CHECK(cost.bound == KernelBound::memory);
  const KernelCost tiny = cost_of(memory_bound("m", Dtype::bf16, 64, 64), round_gpu(), plain());
  CHECK(tiny.bound == KernelBound::latency);
}

TEST_CASE("streams are labelled by whether that part was measured") {
  const Kernel k = memory_bound("m", Dtype::bf16, 1 << 20, 1 << 20);
  CHECK(cost_of(k, load_gpu("v100-sxm2-16gb"), plain()).basis == KernelBasis::fitted);
  CHECK(cost_of(k, load_gpu("rtx-3090"), plain()).basis == KernelBasis::scaled);
}

TEST_CASE("flash attention counts half the square where causal and speeds up with length") {
  // B1 H100 S4096 d128 causal on 100 SMs: 32 * 100 tiles, 32 whole waves, so quantisation says
  // nothing; the ramp is as many keys more.
  const AttentionFigures f = fit_of("h100-sxm")->attention;
  const Kernel k = attention("a", KernelKind::attention_forward, Dtype::bf16, 1, 100, 100, 4096,
                             4096, 128, true);
  const double flops = 4.0 * 100 * 4096 * 4096 * 128 / 2;
  const double rate = 989.4e12 * f.fraction / (1 + f.ramp / 4096);
  const KernelCost best = cost_of(k, round_gpu(), plain());
  CHECK(best.seconds == doctest::Approx(floor_s + flops / rate).epsilon(1e-12));
  SoftwareProfile flash2 = plain();
  flash2.attention_kernel = AttentionKernel::flash2;
  CHECK(cost_of(k, round_gpu(), flash2).seconds ==
        doctest::Approx(floor_s + flops / (0.6 * rate)).epsilon(1e-12));
  // Backward: five products instead of two, at 0.86 of the rate.
  const Kernel b = attention("a", KernelKind::attention_backward, Dtype::bf16, 1, 100, 100, 4096,
                             4096, 128, true);
  CHECK(cost_of(b, round_gpu(), plain()).seconds ==
        doctest::Approx(floor_s + 2.5 * flops / (0.86 * rate)).epsilon(1e-12));
}

TEST_CASE("a smaller head pays the same exponentials for fewer products") {
  // 100 SMs at 1,000 MHz make 1.6e12 exponentials a second; at 819.2e12 FLOP/s there would be as
  // many scores of head size 128. Of the fraction of it that the kernel reaches, so much of a
  // score's time is its exponential. At 64 the rest is halved; size 80 runs in the kernel of 96,
  // where it is three quarters.
  Gpu gpu = round_gpu();
  gpu.boost_mhz = 1000;
  gpu.peak_bf16 = 819.2e12;
  const KernelModel model(gpu, plain());
  const auto work = [&](std::int64_t head) {
    return model
               .cost(attention("a", KernelKind::attention_forward, Dtype::bf16, 1, 100, 100, 8192,
                               8192, head, true))
               .seconds -
           floor_s;
  };
  const double s = figures_of(gpu).attention.fraction;
  CHECK(work(64) == doctest::Approx((0.5 * (1 - s) + s) * work(128)).epsilon(1e-9));
  CHECK(work(80) == doctest::Approx((0.75 * (1 - s) + s) * work(128)).epsilon(1e-9));
  CHECK(work(80) == doctest::Approx(work(96)).epsilon(1e-9));
}

TEST_CASE("unfused attention pays for the scores that go through memory") {
  const Kernel k = attention("a", KernelKind::attention_forward, Dtype::bf16, 1, 8, 8, 4096, 4096,
                             128, true, false);
  const double flops = 4.0 * 8 * 4096 * 4096 * 128;
  const double bytes = static_cast<double>(k.bytes_read + k.bytes_written);
  const double rate = 989.4e12 * long_product_fraction(fit_of("h100-sxm")->gemm);
  const KernelCost cost = cost_of(k, round_gpu(), plain());
  CHECK(cost.seconds ==
        doctest::Approx(k.launches * floor_s + flops / rate + bytes / memory_rate).epsilon(1e-12));
  CHECK(cost.bound == KernelBound::memory);
}

TEST_CASE("a part with half the watts sustains 0.707 of the rate") {
  Gpu half = round_gpu();
  half.power_watts = 350;
  const GemmFigures full = fit_of("h100-sxm")->gemm;
  CHECK(figures_of(half).gemm.sustained_fraction ==
        doctest::Approx(full.sustained_fraction * 0.70710678).epsilon(1e-6));
  const Kernel k = gemm("g", Dtype::bf16, 16384, 16384, 16384);
  CHECK(cost_of(k, half, plain()).seconds > 1.2 * cost_of(k, round_gpu(), plain()).seconds);
}

TEST_CASE("an H100 limited to 500 W forecasts slower than one of 700 W, in attention too") {
  const KernelModel fast(load_gpu("h100-sxm"), plain());
  const KernelModel slow(load_gpu("h100-96gb-hbm2e"), plain());
  const Kernel product = gemm("g", Dtype::bf16, 16384, 14336, 4096);
  const Kernel scores =
      attention("a", KernelKind::attention_forward, Dtype::bf16, 1, 32, 8, 8192, 8192, 128, true);
  // sqrt(500 / 700) = 0.845 of the sustained rate, of which tiles hide a little.
  for (const Kernel& k : {product, scores}) {
    const double ratio = slow.cost(k).seconds / fast.cost(k).seconds;
    CHECK(ratio > 1.08);
    CHECK(ratio < 1 / 0.845);
  }
}

TEST_CASE("a missing peak is an error") {
  CHECK_THROWS_AS(cost_of(gemm("g", Dtype::fp8, 128, 128, 128), round_gpu(), plain()), InputError);
}

TEST_CASE("no kernel is faster when it is larger, where no table is smoothed") {
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

TEST_CASE("every GPU of the catalog has figures within physics") {
  for (const std::string& name : catalog_gpus()) {
    CAPTURE(name);
    const Gpu gpu = load_gpu(name);
    const KernelModel model(gpu, plain());
    const Dtype dtype = gpu.peak_bf16 ? Dtype::bf16 : Dtype::fp16;
    for (const std::int64_t size : {1024, 8192, 32768}) {
      const Kernel k = gemm("g", dtype, size, size, size);
      const KernelCost cost = model.cost(k);
      CHECK(model_flops(k) / cost.seconds < gpu.peak_flops(dtype));
      CHECK(cost.sm_seconds <= cost.seconds);
      CHECK(cost.hbm_seconds <= cost.seconds);
    }
    const Kernel large = gemm("g", dtype, 16384, 16384, 16384);
    CHECK(model_flops(large) / model.cost(large).seconds > 0.45 * gpu.peak_flops(dtype));
  }
}

TEST_CASE("a convolution's weight gradient is split over the SMs that its one tile leaves idle") {
  // 64 to 64 channels, 1x1, 32 images of 56^2: 64 x 64 over 100,352 pixels. Unsplit one tile of
  // 64 x 128 runs 2 * 8,192 * 100,692 / (9.894e12 * 0.714) s = 234 us on one SM. Split it ends when
  // memory does: both images 25,690,112 B, weights 8,192 B and the parts' sums at 898 GB/s: 28.6
  // us.
  const Convolution shape{32, 64, 64, 1, 1, 56, 56};
  const Kernel kernel = convolution("c", Dtype::bf16, shape, ConvolutionPass::weight_gradient);
  const KernelCost cost = cost_of(kernel, round_gpu(), plain());
  CHECK(cost.seconds > 2 * floor_s + 28.6e-6);
  CHECK(cost.seconds < 2 * floor_s + 34e-6);
  CHECK(cost.bound == KernelBound::memory);
  CHECK(cost.basis == KernelBasis::scaled);
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
