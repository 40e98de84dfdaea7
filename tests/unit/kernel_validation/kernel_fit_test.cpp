#include "validate/kernels/kernel_fit.hpp"

#include <doctest/doctest.h>

using namespace stepcast;

namespace {

constexpr GemmFigures truth{.tile_128 = 0.85,
                            .tile_64 = 0.65,
                            .fill = 300,
                            .quantised = 0.4,
                            .sustained_fraction = 0.7,
                            .boost = 0.3,
                            .settle_ms = 0.5};

std::vector<MeasuredGemm> modelled(const GemmChip& chip) {
  std::vector<MeasuredGemm> rows;
  for (const std::int64_t m : {512, 2048, 8192}) {
    for (const std::int64_t n : {768, 1536, 3584, 7168, 16384}) {
      for (const std::int64_t k : {768, 2048, 5120, 12288}) {
        MeasuredGemm row{m, n, k, 0};
        const GemmTime t = gemm_time(truth, chip, gemm_shape(kernel_of(row)), Clocks::benchmark);
        row.us = (kernel_floor + t.work) * 1e6;
        rows.push_back(row);
      }
    }
  }
  return rows;
}

}  // namespace

TEST_CASE("a fit finds the figures that made the times") {
  const GemmChip chip{.peak_flops = 1e15, .sm_count = 132, .memory_rate = 3e12};
  const auto rows = modelled(chip);
  const GemmFigures found = fit_gemm(rows, chip, {.starts = 3, .evaluations = 3000});
  CHECK(found.sustained_fraction == doctest::Approx(truth.sustained_fraction).epsilon(0.03));
  CHECK(found.fill == doctest::Approx(truth.fill).epsilon(0.1));
  CHECK(found.quantised == doctest::Approx(truth.quantised).epsilon(0.1));
  for (const MeasuredGemm& row : rows) {
    const GemmTime t = gemm_time(found, chip, gemm_shape(kernel_of(row)), Clocks::benchmark);
    CHECK((kernel_floor + t.work) * 1e6 == doctest::Approx(row.us).epsilon(0.03));
  }
}

TEST_CASE("a few wild shapes do not pull a fit") {
  const GemmChip chip{.peak_flops = 1e15, .sm_count = 132, .memory_rate = 3e12};
  auto rows = modelled(chip);
  for (std::size_t i = 5; i < rows.size(); i += 12) rows[i].us *= 3;
  const GemmFigures found = fit_gemm(rows, chip, {.starts = 3, .evaluations = 3000});
  CHECK(found.sustained_fraction == doctest::Approx(truth.sustained_fraction).epsilon(0.06));
}

TEST_CASE("attention's figures come back too") {
  const AttentionFigures made{0.55, 700, 0.2, 0.8, 14};
  const AttentionChip chip{
      .peak_flops = 1e15, .sm_count = 132, .boost_mhz = 1800, .memory_rate = 3e12};
  std::vector<MeasuredAttention> rows;
  for (const std::int64_t sequence : {1024, 2048, 4096, 16384}) {
    for (const std::int64_t heads : {16, 40, 64}) {
      for (const std::int64_t batch : {1, 2, 8}) {
        MeasuredAttention row{batch, sequence, heads, 8, 128, 0};
        row.us = attention_benchmark(made, chip, kernel_of(row)) * 1e6;
        rows.push_back(row);
      }
    }
  }
  const AttentionFigures found = fit_attention(rows, chip, {.starts = 3, .evaluations = 3000});
  CHECK(found.fraction == doctest::Approx(made.fraction).epsilon(0.02));
  CHECK(found.ramp == doctest::Approx(made.ramp).epsilon(0.1));
  CHECK(found.prepare == doctest::Approx(made.prepare).epsilon(0.1));
}

TEST_CASE("the shipped figures are those of the shipped shapes") {
  // A fit of a third of the rows lands where `./dev kernels --fit` did.
  for (const std::string& name : measured_gpus()) {
    CAPTURE(name);
    const Gpu gpu = load_gpu(name);
    const double rate = gpu.memory_gbps * 1e9 * figures_of(gpu).memory_fraction;
    const GemmFigures found =
        fit_gemm(measured_gemms(name), gemm_chip(gpu, gpu.peak_flops(Dtype::bf16), rate, 2.0),
                 {.starts = 1, .evaluations = 400, .rows = 350});
    const GemmFigures& shipped = fit_of(name)->gemm;
    CHECK(long_product_fraction(found) ==
          doctest::Approx(long_product_fraction(shipped)).epsilon(0.05));
    CHECK(found.fill == doctest::Approx(shipped.fill).epsilon(0.25));
  }
}
