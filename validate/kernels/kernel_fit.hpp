#pragma once
// Fits the figures of sim/kernels to measured shapes of one GPU, as data/kernel-fits.toml has them.
//
// The models have kinks (whole waves, the best of several tiles), so derivatives mislead: NLopt's
// Sbplx (Nelder and Mead's simplex on subspaces, with bounds) from three fixed starts. Minimised is
// the sum of 2 s^2 (sqrt(1 + (e/s)^2) - 1) over e = log(modelled / measured), s = 0.05: squares for
// small errors, absolute values for large ones, so that a few odd shapes do not pull.
//
// Cost: 0.3 s for 1,000 products. Tested by tests/unit/kernel_validation/kernel_fit_test.cpp:
// figures come back from times that the model made.

#include <vector>

#include "sim/kernels/gpu_family.hpp"
#include "sim/kernels/kernel_tables.hpp"

namespace stepcast {

inline constexpr int gemm_figure_count = 7;
inline constexpr int attention_figure_count = 5;

struct FitEffort {
  int starts = 3;
  int evaluations = 1500;      // of the whole sum, a start
  std::size_t rows = 100'000;  // at most so many, evenly spread
};

GemmFigures fit_gemm(const std::vector<MeasuredGemm>& rows, const GemmChip& chip, FitEffort effort);
AttentionFigures fit_attention(const std::vector<MeasuredAttention>& rows,
                               const AttentionChip& chip, FitEffort effort);

// The text of data/kernel-fits.toml, fitted to all measured shapes.
std::string fitted_figures(FitEffort effort);

}  // namespace stepcast
