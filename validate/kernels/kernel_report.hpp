#pragma once
// The accuracy of the kernel models as text and as a picture (docs/kernels.md). Nothing is kept
// from an earlier run: each block of shapes is fitted anew. Cost: 2 s.

#include <string>
#include <vector>

#include "validate/kernels/cross_validation.hpp"

namespace stepcast {

struct KernelAccuracy {
  std::vector<Validation> blocks;  // what the bars are set for
  std::vector<Validation> attention;
  std::vector<Validation> held_out;     // GPUs; the first two are H200 without H200
  std::vector<Validation> bands;        // harder than any bar: a quarter of a table at once
  std::vector<Validation> sensitivity;  // blocks again, the table's widths halved and doubled
};

// `everything` false: only what has a bar.
KernelAccuracy kernel_accuracy(bool everything);

// What each is measured against: median and 90 % of the shapes below.
struct AccuracyBar {
  double median = 0, p90 = 0;
};
inline constexpr AccuracyBar product_bar{0.04, 0.12};
inline constexpr AccuracyBar attention_bar{0.06, 0.15};
inline constexpr AccuracyBar held_out_bar{0.08, 0.20};

bool meets(const Validation& v, const AccuracyBar& bar);

std::string accuracy_text(const KernelAccuracy& accuracy);
// SVG: for each GPU the share of left-out shapes whose error is below x.
std::string accuracy_picture(const KernelAccuracy& accuracy);

}  // namespace stepcast
