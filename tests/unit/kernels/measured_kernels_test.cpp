// Measured kernels go before the model, and correct it nearby.
#include "sim/kernels/measured_kernels.hpp"

#include <doctest/doctest.h>

using namespace stepcast;

namespace {

KernelModel h100() { return {load_gpu("h100-sxm"), load_profile("pytorch-eager")}; }

Seconds model(const Kernel& kernel) { return h100().cost(kernel).seconds; }

Kernel product(std::int64_t m, std::int64_t n, std::int64_t k) {
  return gemm("p", Dtype::bf16, m, n, k);
}

}  // namespace

TEST_CASE("a measured shape takes what it took, its neighbour the model times the same ratio") {
  const Kernel known = product(4096, 4096, 4096);
  const Seconds measured = 0.9 * model(known);
  const CalibratedKernels kernels(h100(), {{{known, measured, 0}}, {}, 0});
  CHECK(kernels.cost(known).seconds == doctest::Approx(measured));
  CHECK(kernels.cost(known).how == MeasuredHow::measured);
  CHECK(kernels.cost(known).provenance == Provenance::measured);
  // One doubling away.
  const Kernel near = product(4096, 4096, 8192);
  CHECK(kernels.cost(near).seconds == doctest::Approx(0.9 * model(near)));
  CHECK(kernels.cost(near).how == MeasuredHow::interpolated);
  CHECK(kernels.cost(near).sm_seconds == doctest::Approx(0.9 * h100().cost(near).sm_seconds));
  // Two doublings away.
  const Kernel far = product(4096, 1024, 4096);
  CHECK(kernels.cost(far).how == MeasuredHow::extrapolated);
  CHECK(kernels.cost(far).provenance == Provenance::extrapolated);
  // Four doublings away: the model's own.
  const Kernel apart = product(256, 4096, 4096);
  CHECK_FALSE(kernels.cost(apart).how);
  CHECK(kernels.cost(apart).seconds == doctest::Approx(model(apart)));
  // Of another dtype nothing is known.
  const Kernel other = gemm("p", Dtype::fp16, 4096, 4096, 4096);
  CHECK_FALSE(kernels.cost(other).how);
  CHECK(kernels.cost(other).seconds == doctest::Approx(model(other)));
}

TEST_CASE("between two shapes the nearer one counts by the square of its distance") {
  const Kernel a = product(1024, 4096, 4096), b = product(8192, 4096, 4096);
  const CalibratedKernels kernels(h100(),
                                  {{{a, 0.5 * model(a), 0}, {b, 0.8 * model(b), 0}}, {}, 0});
  // 2048 is 1 doubling from a and 2 from b: weights 1 and 1/4, of the logarithms.
  const Kernel between = product(2048, 4096, 4096);
  const double ratio = std::exp((std::log(0.5) + 0.25 * std::log(0.8)) / 1.25);
  CHECK(kernels.cost(between).seconds == doctest::Approx(ratio * model(between)));
  CHECK(kernels.cost(between).how == MeasuredHow::interpolated);
}

TEST_CASE("memory-bound kernels go by bytes a launch, and by name where there is one") {
  MeasuredKernels measured;
  measured.memory = {{Name(), {1 << 20, 4 << 20}, {10e-6, 40e-6}, {}},
                     {Name("adamw"), {1 << 20}, {70e-6}, {}}};
  const CalibratedKernels kernels(h100(), measured);
  const auto cost = [&](const char* name, Bytes bytes, int launches) {
    return kernels.cost(memory_bound(name, Dtype::fp32, bytes / 2, bytes / 2, launches));
  };
  CHECK(cost("norm", 1 << 20, 1).seconds == doctest::Approx(10e-6));
  // Half way on the logarithm from 1 to 4 MiB is 2 MiB; from 10 to 40 us is 20.
  CHECK(cost("norm", 2 << 20, 1).seconds == doctest::Approx(20e-6));
  CHECK(cost("norm", 2 << 20, 1).how == MeasuredHow::interpolated);
  // Two launches of 1 MiB each.
  CHECK(cost("norm", 2 << 20, 2).seconds == doctest::Approx(20e-6));
  CHECK(cost("norm", 2 << 20, 2).how == MeasuredHow::measured);
  // Beyond the largest: as the bytes.
  CHECK(cost("norm", 8 << 20, 1).seconds == doctest::Approx(80e-6));
  CHECK(cost("norm", 8 << 20, 1).how == MeasuredHow::extrapolated);
  CHECK(cost("norm", 1 << 10, 1).seconds == doctest::Approx(10e-6));
  CHECK(cost("adamw", 1 << 20, 1).seconds == doctest::Approx(70e-6));
}

TEST_CASE("nothing asks for more of the memory than its own time") {
  const Kernel known = memory_bound("m", Dtype::fp32, 1 << 30, 0);
  MeasuredKernels measured;
  measured.memory = {{Name(), {1 << 30}, {1e-6}, {}}};  // faster than the model thinks possible
  measured.memory_bytes_per_second = 1e15;
  const CalibratedKernels kernels(h100(), measured);
  const auto cost = kernels.cost(known);
  CHECK(cost.seconds == doctest::Approx(1e-6));
  CHECK(cost.hbm_seconds <= cost.seconds);
  CHECK(cost.sm_seconds <= cost.seconds);
  CHECK(kernels.memory_bytes_per_second() == 1e15);
}
