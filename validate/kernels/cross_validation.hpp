#pragma once
// How well sim/kernels forecasts shapes and GPUs that it has not seen.
//
// Shapes are left out by blocks, never one by one: a left-out shape's neighbours in n and in k are
// left out with it, so that what is asked is a forecast between measured regions, not the noise
// between two neighbours. For each block both the figures are fitted and the table is built from
// the other shapes only.
//
//   block     the sizes of n in 4 runs of neighbours, those of k in 4: 16 blocks of some 70 shapes
//   band      all shapes of one run of n (or of k), 4 times: a quarter of the table at once
//   length    attention: one sequence length with one of three ranges of batch * heads, 15 blocks
//   GPU       all shapes of the GPU; figures and table are those of another part of its family
//
// Tested by tests/unit/kernel_validation/cross_validation_test.cpp, which also keeps the figures
// from getting worse.

#include <string>
#include <vector>

#include "validate/kernels/kernel_fit.hpp"

namespace stepcast {

struct ShapeForecast {
  std::string shape;
  double measured_us = 0;
  double model_us = 0;  // the fitted model alone
  double table_us = 0;  // with the measured shapes around
};

struct Validation {
  std::string gpu;
  std::string kind;   // "product", "attention"
  std::string folds;  // "16 blocks of n and k"
  int figures = 0;    // fitted
  std::vector<ShapeForecast> shapes;
};

// |forecast / measured - 1| at a quantile of the shapes; `signed_median` keeps the sign.
double error_at(const Validation& v, double quantile, bool table);
double signed_median(const Validation& v, bool table);

enum class Folds { blocks, bands_of_n, bands_of_k };

// EFFORT is of each fit; WIDTHS stretches the table's idea of near (1: as shipped).
Validation validate_gemm(const std::string& gpu, Folds folds, FitEffort effort,
                         double widths = 1.0);
Validation validate_attention(const std::string& gpu, FitEffort effort, double widths = 1.0);

// All of GPU from the fit and the tables of OTHER, as for a part that nobody measured.
Validation hold_out_gemm(const std::string& gpu, const std::string& other);
Validation hold_out_attention(const std::string& gpu, const std::string& other);

inline constexpr FitEffort fold_effort{.starts = 1, .evaluations = 400, .rows = 350};

}  // namespace stepcast
