#include "sim/kernels/attention_model.hpp"

#include <algorithm>
#include <cmath>

namespace stepcast {

namespace {

constexpr double tile_queries = 128;
constexpr double fitted_head_size = 128;
constexpr double exponentials_per_clock = 16;  // an SM's special function units, Volta to Blackwell

double to_double(std::int64_t value) { return static_cast<double>(value); }

// The kernel that serves a head size: the next larger one.
double padded_head(std::int64_t head_size) {
  for (const int size : {32, 64, 96, 128, 192, 256}) {
    if (head_size <= size) return size;
  }
  return to_double(head_size);
}

// Time a score against that at the fitted head size, whose products run at `rate` FLOP/s.
double relative_score(const AttentionChip& chip, double rate, double head) {
  if (chip.boost_mhz <= 0) return head / fitted_head_size;
  const double exponentials = exponentials_per_clock * chip.sm_count * chip.boost_mhz * 1e6;
  const double scores = rate / (4 * fitted_head_size);
  const double share = std::min(scores / exponentials, 1.0);
  return head / fitted_head_size * (1 - share) + share;
}

}  // namespace

Seconds attention_work(const AttentionFigures& f, const AttentionChip& chip, const Kernel& kernel,
                       double rate) {
  const double keys = to_double(kernel.n);
  const double flops_per_second = chip.peak_flops * f.fraction * rate;
  const double score_share = relative_score(chip, flops_per_second, padded_head(kernel.k)) *
                             fitted_head_size / to_double(kernel.k);
  const Seconds products = hardware_flops(kernel) / flops_per_second * score_share;
  // The ramp is stated for causal forwards, which see half the keys.
  const double ramp = f.ramp * (kernel.causal ? 1.0 : 0.5);
  const double tiles = to_double(kernel.batch * kernel.heads) *
                       std::ceil(to_double(kernel.m) / tile_queries) / chip.sm_count;
  const double waves =
      f.quantised * std::ceil(tiles) / tiles + (1 - f.quantised) * std::max(1.0, 1 / tiles);
  return products * (1 + ramp / keys) * waves;
}

Seconds attention_benchmark(const AttentionFigures& f, const AttentionChip& chip,
                            const Kernel& kernel) {
  const double bytes = 2.0 * 2 * to_double(kernel.batch * kernel.m) *
                       to_double(kernel.heads + 2 * kernel.kv_heads) * to_double(kernel.k);
  return attention_work(f, chip, kernel, 1.0) + f.prepare * bytes / chip.memory_rate +
         f.start_us * 1e-6;
}

}  // namespace stepcast
