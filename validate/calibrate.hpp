#pragma once
// Measures what a machine's executor can do, unit by unit: a unit is one series of collectives (an
// operation on an axis, all sizes), the kernels of one kind, or what the executor adds to an op.
// After each unit the calibration so far is given to `keep`, so that a measurement that was
// interrupted goes on where it stood: units that are in the calibration already are not repeated.
//
//   Calibration c = ...;  // origin filled in, perhaps some units done before
//   calibrate(c, bench, {.quick = true}, keep);
//
// Tested by tests/unit/validate/calibrate_test.cpp.

#include <functional>
#include <string>
#include <vector>

#include "runtime/calibrate/bench.hpp"
#include "sim/calibration/calibration.hpp"

namespace stepcast {

// Where benches run.
struct Bench {
  Mesh mesh;
  int ranks_per_node = 0;  // 0: all on one
  // Runs a schedule for so many steps; compute ops take `op_seconds` where the executor does not
  // really compute. An empty timeline: another process has it.
  std::function<Timeline(const Schedule& schedule, int steps, Seconds op_seconds)> run;
  std::string source = {};  // "threads of this machine": of every series
  // Kernels really run (GPUs): products, attention and memory-bound kernels are measured too.
  bool computes = false;
  std::vector<Dtype> dtypes = {Dtype::bf16, Dtype::fp32};  // of their products
  int channels = 1;                                        // that a collective holds
  // GPUs: the same with collectives that hold `ctas` channels, no more and no fewer; and the counts
  // that interference is measured at.
  std::function<Timeline(const Schedule& schedule, int steps, int ctas)> run_with = {};
  std::vector<int> ctas = {};  // rising
  // Of the collectives that go on beside ops: large enough that a hundred outlast fifty ops.
  Bytes beside = 256 * kib;
};

struct CalibrateOptions {
  bool quick = false;
  Bytes largest = 64 * mib;                                // of a collective
  std::vector<Bytes> sizes = {};                           // rising; none: by `quick` and `largest`
  std::vector<Dtype> dtypes = {Dtype::fp32, Dtype::bf16};  // that sums are measured of
};

// What will be measured, by name, and what of it is there already.
struct CalibrateUnit {
  std::string name;
  bool done = false;
};
std::vector<CalibrateUnit> calibrate_units(const Calibration& so_far, const Bench& bench,
                                           const CalibrateOptions& options);

// `before` is told the unit's number (from 0) and name, `keep` gets the calibration after each.
void calibrate(Calibration& calibration, const Bench& bench, const CalibrateOptions& options,
               const std::function<void(std::size_t, const std::string&)>& before,
               const std::function<void(const Calibration&)>& keep);

}  // namespace stepcast
