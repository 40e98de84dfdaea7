#pragma once
// Seconds of a fused attention kernel (FlashAttention and its kin) from four fitted figures.
//
//   rate      A tile of queries walks over the keys it may see. On long sequences its products run
//             at `fraction` of the dense peak; each row of tiles also pays for filling its pipeline
//             and for the diagonal tile that causal masking halves but hardware computes whole:
//             together as much as `ramp` more keys.
//   waves     One block a tile of 128 queries, in waves over the SMs, of which `quantised` is paid.
//   head size Every score costs one exponential, whatever the head size, and an SM makes 16 a
//             clock.
//             On H100 that is 3.9e12 a second, 0.26 ps each (FlashAttention-3, arXiv 2407.08608,
//             section 3.1). At head size 128 a score has 512 FLOPs, and a kernel of 545 TFLOP/s
//             takes 0.94 ps for it: s = 0.28 of that are exponentials, which are not shorter where
//             the products are. So time a score grows as head_size / 128 (1 - s) + s. A slower
//             kernel has a smaller s; backward, with 2.5 times the products, has more to do between
//             them as well, and is taken to have its own rate's s. Figures are fitted at 128; other
//             sizes follow this rule. FLOP rates at 64 against 128, 16,384 tokens, by the rule and
//             by the papers (arXiv 2307.08691, 2407.08608; read off their figures, from memory):
//               A100 FlashAttention-2 forward   227 TFLOP/s at 128   0.85   0.85
//                                    backward   196                  0.86   0.87
//               H100 FlashAttention-3 forward   640                  0.76   0.78
//             Kernels exist for head sizes 32, 64, 96, 128, 192 and 256.
//   prepare   The measured kernels are an inference engine's: they also rotate queries and keys and
//             write the key-value cache. `prepare` is how often that moves the tensors through
//             memory. Training counts such kernels apart, so it gets a time without it.
//
// Example: 132 SMs, 989 TFLOP/s, fraction 0.55, ramp 690 keys, causal, one sequence of 4096 with 32
// heads of 128: 2*32*4096^2*128 = 137.4 GFLOP at 0.55*989e12 is 252.7 us, times (1 + 690/4096):
// 295.3 us. 32*32 = 1024 tiles are 7.76 waves: 8 whole ones if all of it is paid.
//
// Figures: data/kernel-fits.toml, fitted by validate/kernels. Tested by
// tests/unit/kernels/kernel_cost_test.cpp and tests/unit/kernel_validation.

#include "base/kernel.hpp"
#include "base/units.hpp"

namespace stepcast {

struct AttentionFigures {
  double fraction = 0;   // of the dense peak, head size 128, long sequences, forward
  double ramp = 0;       // keys, causal
  double quantised = 0;  // 0..1
  double prepare = 0;    // passes over queries, keys and values, each read and written
  double start_us = 0;   // of the benchmark's kernels together
};

struct AttentionChip {
  double peak_flops = 0;  // FLOP/s
  double sm_count = 0;
  double boost_mhz = 0;    // 0: unknown, exponentials are left out
  double memory_rate = 0;  // B/s that streams reach
};

// The products and exponentials of one pass over the scores at `rate` times the figures' fraction.
Seconds attention_work(const AttentionFigures& figures, const AttentionChip& chip,
                       const Kernel& kernel, double rate);

// What the benchmark of the inference engine sees of a forward kernel.
Seconds attention_benchmark(const AttentionFigures& figures, const AttentionChip& chip,
                            const Kernel& kernel);

}  // namespace stepcast
