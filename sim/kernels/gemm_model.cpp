#include "sim/kernels/gemm_model.hpp"

#include <algorithm>
#include <cmath>

namespace stepcast {

namespace {

double to_double(std::int64_t value) { return static_cast<double>(value); }

// (a^4 + b^4 + c^4)^(1/4), without overflow or underflow at seconds' sizes.
double norm4(double a, double b, double c = 0) {
  const double scale = std::max({a, b, c});
  if (scale <= 0) return 0;
  const auto fourth = [scale](double x) {
    return (x / scale) * (x / scale) * (x / scale) * (x / scale);
  };
  return scale * std::sqrt(std::sqrt(fourth(a) + fourth(b) + fourth(c)));
}

struct Waves {
  Seconds seconds = 0;
  double busy = 1;  // share of the SMs over that time
};

}  // namespace

GemmTime gemm_time(const GemmFigures& f, const GemmChip& chip, const GemmShape& s, Clocks clocks) {
  struct Tile {
    std::int64_t rows, columns;
    double relative;
  };
  const Tile tiles[] = {{256, 128, 1.0},
                        {128, 256, 1.0},
                        {128, 128, f.tile_128},
                        {128, 64, f.tile_64},
                        {64, 128, f.tile_64}};
  const double fill = f.fill * 2.0 / chip.element_bytes;
  const double sm_rate = chip.peak_flops / chip.sm_count;

  const double flops = 2.0 * to_double(s.m) * to_double(s.n) * to_double(s.k) * to_double(s.batch);
  const Seconds sustained = flops / (chip.peak_flops * f.sustained_fraction);
  const double lead =
      clocks == Clocks::settled ? 0 : f.boost / (1 + sustained / (f.settle_ms * 1e-3));
  const Seconds power = sustained / (1 + lead);

  GemmTime best;
  Seconds best_total = 0;
  for (int parts = 1;; parts *= 2) {
    Waves waves;
    double fewest = 0;  // tiles of the largest kind
    for (const Tile& tile : tiles) {
      const double count = to_double(ceil_div(s.m, tile.rows)) *
                           to_double(ceil_div(s.n, tile.columns)) * to_double(s.batch) * parts;
      if (fewest == 0) fewest = count;
      const double even = std::max(count / chip.sm_count, 1.0);
      const double whole = std::ceil(count / chip.sm_count);
      const double number = f.quantised * whole + (1 - f.quantised) * even;
      const Seconds one = 2.0 * to_double(tile.rows * tile.columns) *
                          (to_double(s.k) / parts + fill) / (sm_rate * tile.relative);
      if (waves.seconds > 0 && number * one >= waves.seconds) continue;
      waves.seconds = number * one;
      waves.busy = std::min(1.0, count / chip.sm_count / number);
    }
    const double sums =
        parts == 1 ? 0 : 8.0 * to_double(s.m) * to_double(s.n) * to_double(s.batch) * parts;
    const Seconds memory = (s.bytes + sums) / chip.memory_rate;
    const Seconds work = norm4(waves.seconds, power, memory);
    const Seconds total = work + (parts == 1 ? 0 : kernel_floor);
    if (parts == 1 || total < best_total) {
      best_total = total;
      best = {.work = total,
              .compute = norm4(waves.seconds, power),
              .memory = memory,
              .busy = waves.busy,
              .parts = parts};
    }
    if (fewest >= 2 * chip.sm_count || to_double(s.k) / (2 * parts) < std::max(fill, 1.0)) break;
  }
  return best;
}

double long_product_fraction(const GemmFigures& figures) {
  return 1 / norm4(1.0, 1 / figures.sustained_fraction);
}

}  // namespace stepcast
