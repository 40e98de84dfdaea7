// The product model and the tables around it, with figures made of round numbers.
#include "sim/kernels/gemm_model.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "sim/kernels/shape_tables.hpp"

using namespace stepcast;

namespace {

GemmFigures round_figures() {
  return {.tile_128 = 0.8,
          .tile_64 = 0.7,
          .fill = 256,
          .quantised = 0,
          .sustained_fraction = 0.7,
          .boost = 0.5,
          .settle_ms = 1};
}

// 10 TFLOP/s an SM.
GemmChip round_chip() { return {.peak_flops = 1e15, .sm_count = 100, .memory_rate = 2.5e12}; }

GemmShape shape(std::int64_t m, std::int64_t n, std::int64_t k) {
  const double bytes = 2.0 * (static_cast<double>(m) * static_cast<double>(k) +
                              static_cast<double>(k) * static_cast<double>(n) +
                              static_cast<double>(m) * static_cast<double>(n));
  return {.m = m, .n = n, .k = k, .batch = 1, .bytes = bytes};
}

double norm(double a, double b, double c) {
  return std::pow(std::pow(a, 4) + std::pow(b, 4) + std::pow(c, 4), 0.25);
}

}  // namespace

TEST_CASE("tiles, power and memory combine as the 4-norm") {
  // 512 tiles of 256x128 on 100 SMs, 4096 + 256 deep; 2*4096^3 FLOP at 700 TFLOP/s; 96 MiB.
  const double waves = 5.12 * 2 * 256 * 128 * 4352 / 1e13;
  const double power = 2.0 * 4096 * 4096 * 4096 / 0.7e15;
  const double memory = 3 * 4096.0 * 4096 * 2 / 2.5e12;
  CHECK(waves == doctest::Approx(146.0e-6).epsilon(1e-3));
  CHECK(power == doctest::Approx(196.3e-6).epsilon(1e-3));
  const GemmTime t =
      gemm_time(round_figures(), round_chip(), shape(4096, 4096, 4096), Clocks::settled);
  CHECK(t.work == doctest::Approx(norm(waves, power, memory)).epsilon(1e-12));
  CHECK(t.work == doctest::Approx(209.9e-6).epsilon(1e-3));
  CHECK(t.compute == doctest::Approx(norm(waves, power, 0)).epsilon(1e-12));
  CHECK(t.memory == doctest::Approx(memory).epsilon(1e-12));
  CHECK(t.parts == 1);
}

TEST_CASE("a short product runs ahead of the power limit, a long one does not") {
  // At 10 TFLOP/s 13.7 ms: of the lead of 0.5 there is 0.5 / 14.7 left.
  GemmChip chip = round_chip();
  chip.memory_rate = 1e18;
  GemmFigures f = round_figures();
  f.fill = 0;
  f.sustained_fraction = 0.01;
  f.settle_ms = 1;
  const double power = 2.0 * 4096 * 4096 * 4096 / 1e13;  // 13.7 ms
  const double lead = 0.5 / (1 + power * 1e3);
  const GemmShape s = shape(4096, 4096, 4096);
  CHECK(gemm_time(f, chip, s, Clocks::settled).work == doctest::Approx(power).epsilon(1e-6));
  CHECK(gemm_time(f, chip, s, Clocks::benchmark).work ==
        doctest::Approx(power / (1 + lead)).epsilon(1e-6));
}

TEST_CASE("a kernel of one block a tile pays its last wave whole, a streaming one does not") {
  GemmChip chip = round_chip();
  chip.memory_rate = 1e18;
  GemmFigures f = round_figures();
  f.sustained_fraction = 1;
  f.fill = 4096;  // no depth is cut
  f.tile_128 = f.tile_64 = 0.5;
  // 120 tiles of 256x128 are 1.2 waves; 2 if whole. 128x128: 2.4, or 3 of half a tile at half.
  const GemmShape s = shape(256 * 12, 128 * 10, 4096);
  const double tile = 2.0 * 256 * 128 * 8192 / 1e13;
  const double power = 2.0 * 3072 * 1280 * 4096 / 1e15;
  CHECK(gemm_time(f, chip, s, Clocks::settled).work ==
        doctest::Approx(norm(1.2 * tile, power, 0)).epsilon(1e-6));
  f.quantised = 1;
  const GemmTime whole = gemm_time(f, chip, s, Clocks::settled);
  CHECK(whole.work == doctest::Approx(norm(2 * tile, power, 0)).epsilon(1e-6));
  CHECK(whole.busy == doctest::Approx(0.6));
  // 60 tiles leave 40 SMs idle either way.
  f.quantised = 0;
  const GemmTime few = gemm_time(f, chip, shape(256 * 6, 128 * 10, 4096), Clocks::settled);
  CHECK(few.busy == doctest::Approx(0.6));
  CHECK(few.compute == doctest::Approx(norm(tile, power / 2, 0)).epsilon(1e-6));
}

TEST_CASE("one deep tile is cut into parts that add up through memory") {
  // 128 x 64 by 262,144: one tile of 128x64. In 128 parts 2048 deep, 2 waves streamed to 1.28,
  // but 64 parts of 4096 + 256 run at once and write half the sums.
  GemmFigures f = round_figures();
  GemmChip chip = round_chip();
  chip.memory_rate = 1e18;
  const GemmShape s = shape(128, 64, 262'144);
  const GemmTime t = gemm_time(f, chip, s, Clocks::settled);
  const auto waves = [](double parts) {
    return std::max(parts / 100, 1.0) * 2 * 128 * 64 * (262'144 / parts + 256) / (1e13 * 0.7);
  };
  CHECK(waves(128) < waves(64));
  CHECK(waves(256) > waves(128));
  const double power = 2.0 * 128 * 64 * 262'144 / 0.7e15;
  CHECK(t.parts == 128);
  CHECK(t.work == doctest::Approx(kernel_floor + norm(waves(128), power, 0)).epsilon(1e-6));
  // Sums of 8 bytes an output and part through a memory of 1 GB/s are dearer than idle SMs.
  chip.memory_rate = 1e9;
  CHECK(gemm_time(f, chip, s, Clocks::settled).parts < 128);
}

TEST_CASE("no product is faster when it is larger") {
  GemmFigures f = round_figures();
  for (const double quantised : {0.0, 0.5, 1.0}) {
    f.quantised = quantised;
    for (const std::int64_t m : {64, 500, 4096, 20'000}) {
      for (const std::int64_t n : {64, 500, 4096}) {
        for (const std::int64_t k : {64, 500, 4096}) {
          const auto work = [&](std::int64_t a, std::int64_t b, std::int64_t c) {
            return gemm_time(f, round_chip(), shape(a, b, c), Clocks::settled).work;
          };
          CHECK(work(m, n, k + 64) >= work(m, n, k));
          CHECK(work(2 * m, n, k) >= work(m, n, k));
          CHECK(work(m, 2 * n, k) >= work(m, n, k));
        }
      }
    }
  }
}

TEST_CASE("a long product runs at the fraction that tiles and power leave") {
  // (1 + 0.7^-4)^(-1/4)
  CHECK(long_product_fraction(round_figures()) == doctest::Approx(0.66334).epsilon(1e-4));
}

TEST_CASE("a measured shape one width away lends 0.607 of 0.807 of its ratio") {
  ShapeResiduals residuals(gemm_widths());
  residuals.add({24.0, 0.0, 12.0}, std::log(1.2));
  CHECK(std::exp(residuals.log_ratio({24.125, 0.0, 12.0})) ==
        doctest::Approx(std::pow(1.2, 0.60653 / 0.80653)).epsilon(1e-4));
  CHECK(std::exp(residuals.log_ratio({24.0, 2.0, 12.0})) ==
        doctest::Approx(std::pow(1.2, 0.60653 / 0.80653)).epsilon(1e-4));
  // Alone at its own place the model still has a weight of 0.2; far away only the model counts.
  CHECK(std::exp(residuals.log_ratio({24.0, 0.0, 12.0})) ==
        doctest::Approx(std::pow(1.2, 1 / 1.2)).epsilon(1e-4));
  CHECK(residuals.log_ratio({30.0, 0.0, 12.0}) == 0.0);
}

TEST_CASE("shapes outside a table are taken to its box") {
  const std::vector<MeasuredGemm> rows = {{512, 768, 1024, 1.0}, {8192, 4096, 2048, 1.0}};
  const GemmBox box = box_of(rows);
  const Kernel inside = into(box, gemm(Name("g"), Dtype::bf16, 100, 100'000, 1500));
  CHECK(inside.m == 512);
  CHECK(inside.n == 4096);
  CHECK(inside.k == 1500);
}

TEST_CASE("the shipped tables are whole, sorted and name a fit each") {
  std::size_t gemms = 0, attention = 0;
  for (const std::string& gpu : measured_gpus()) {
    const auto rows = measured_gemms(gpu);
    gemms += rows.size();
    attention += measured_attention(gpu).size();
    for (std::size_t i = 1; i < rows.size(); ++i) {
      const auto key = [](const MeasuredGemm& r) { return std::array{r.m, r.n, r.k}; };
      CHECK(key(rows[i - 1]) < key(rows[i]));
    }
  }
  CHECK(gemms == 1085 + 1717 + 1092 + 1076);
  CHECK(attention == 3 * 132);
}
