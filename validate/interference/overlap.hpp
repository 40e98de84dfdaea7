#pragma once
// What kernels and collectives do to each other, held against what others measured: one factor is
// fitted on one machine (4 A100) and checked on another (4 GH200) and on kernels of a training
// step. docs/interference.md has the table and says what the model is.
//
//   const Overlaps published = published_overlaps();
//   const double factor = fit_interference(published);         // 1.38
//   table(published, factor);                                   // forecast beside measured
//
// Each forecast is a run of the fluid engine on a schedule of two streams. Two rules for the
// samples of back-to-back kernels:
//   at once    a collective gets its SMs when it is ready: what a forecast of a step does
//   in turn    the GPU hands out the blocks of a kernel that came first before those of one that
//              came later, so a collective begins when the product that is running is done
//
// Tested by tests/unit/interference.

#include <string>
#include <vector>

#include "base/units.hpp"

namespace stepcast::validate {

// Products on one stream, all-reduces on another, begun together. Seconds of one.
struct OverlapSample {
  std::string name;
  bool fitted_on = false;
  int sms = 0;
  int channels = 0;
  int products = 0, all_reduces = 0;
  Seconds product = 0, product_beside = 0;
  Seconds all_reduce = 0, all_reduce_beside = 0;
};

// A kernel beside all-gathers that never end.
struct KernelBeside {
  std::string name;
  bool memory_bound = false;
  Seconds alone = 0, beside = 0;
};

struct Overlaps {
  std::vector<OverlapSample> samples;
  std::string machine;  // of the kernels, from the catalog
  Bytes gather_bytes = 0;
  std::vector<KernelBeside> kernels;
};

Overlaps published_overlaps();

enum class BlockOrder { at_once, in_turn };

struct OverlapForecast {
  Seconds product = 0, all_reduce = 0;  // the mean of each stream
};

// `factor`: of the SMs and the memory that a collective takes (SoftwareProfile's
// overlap_interference).
OverlapForecast forecast_overlap(const OverlapSample& sample, double factor, BlockOrder order);
Seconds forecast_beside(const Overlaps& of, const KernelBeside& kernel, double factor);

// The factor with which the products of the samples to fit on come out as measured, in turn.
double fit_interference(const Overlaps& of);

std::string table(const Overlaps& of, double factor);

}  // namespace stepcast::validate
