#pragma once
// Seconds of a matrix product from seven fitted figures of a GPU and its data sheet. It is what a
// shape without a measurement gets, and what measured shapes are interpolated against: tables keep
// measured / modelled, which varies slowly with the shape, while the time itself does not
// (shape_tables.hpp).
//
//   waves    The output is cut into tiles, which fill the SMs in waves; each tile is k + fill
//            elements deep, as the pipeline fills and drains, at the SM's share of the peak. Of
//            three tile sizes the fastest. `quantised` says how much of the last, partly filled
//            wave is paid: all of it by a kernel with one block a tile, little by one that streams
//            over the tiles.
//   split-K  Where tiles are fewer than two waves the inner size may be cut into 2, 4, 8, ... parts
//            at least `fill` deep. Each part writes its fp32 sums and a second kernel reads them.
//   power    A chip that works flat out lowers its clock until it keeps its power limit; that takes
//            some milliseconds, so a short product runs up to 1 + boost faster than
//            `sustained_fraction` of the peak. Benchmarks see that (Clocks::benchmark), products
//            inside a training step do not (Clocks::settled): there the chip has long settled.
//   memory   The operands once, at the rate of streams.
//
// No limit is reached exactly while another is near, so the three combine as the 4-norm. The norm,
// the 1.5 us of every kernel and the bytes of split-K are not fitted.
//
// Example, settled, 100 SMs and 1000 TFLOP/s, sustained 0.7, fill 256, no
// quantisation: 4096^3 has 512 tiles of 256x128, 5.12 waves of 2*256*128*4352 / 10e12 s = 28.5
// us each: 146.0 us. Power: 2*4096^3 / 700e12 = 196.3 us. Memory, 100.7 MB at 2.5 TB/s: 40.3 us.
// Together (146.0^4 + 196.3^4 + 40.3^4)^(1/4) = 210.4 us, and 1.5 us.
//
// Cost: 30 to 150 ns. Fitted by validate/kernels; figures: data/kernel-fits.toml. Tested by
// tests/unit/kernels/gemm_model_test.cpp and tests/unit/kernel_validation.

#include <cstdint>

#include "base/units.hpp"

namespace stepcast {

struct GemmFigures {
  double tile_128 = 0;            // a 128x128 tile's rate against a 256x128 one's, the SM's peak
  double tile_64 = 0;             // a 128x64 tile's
  double fill = 0;                // 16-bit elements of k
  double quantised = 0;           // 0..1
  double sustained_fraction = 0;  // of the dense peak: the whole chip under its power limit
  double boost = 0;               // of the sustained rate
  double settle_ms = 0;           // a product of this length has lost half of the boost
};

struct GemmChip {
  double peak_flops = 0;  // FLOP/s, of the operands' dtype
  double sm_count = 0;
  double memory_rate = 0;  // B/s that streams reach
  double element_bytes = 2;
};

struct GemmShape {
  std::int64_t m = 0, n = 0, k = 0, batch = 1;
  double bytes = 0;  // read and written
};

enum class Clocks : std::uint8_t { settled, benchmark };

struct GemmTime {
  Seconds work = 0;     // without the start of the kernel
  Seconds compute = 0;  // waves and power together
  Seconds memory = 0;
  double busy = 1;  // share of the SMs that have a tile, over `compute`
  int parts = 1;    // of split-K
};

// A kernel's start and drain on the GPU. Back-to-back kernels in a CUDA graph take 1.37 us on H200
// and stream launches 1.6 us on L40 (gpu-benches, gpu-small-kernels).
constexpr Seconds kernel_floor = 1.5e-6;

GemmTime gemm_time(const GemmFigures& figures, const GemmChip& chip, const GemmShape& shape,
                   Clocks clocks);

// Fraction of the dense peak that a product without end reaches: tiles and power alone.
double long_product_fraction(const GemmFigures& figures);

}  // namespace stepcast
