#pragma once
// Which kernels a calibration of a GPU measures: a grid of shapes, a factor of four from one size
// to the next (two without --quick), so that every size between is within a doubling of a measured
// one.
//
//   products   m 256 .. 16384, n and k 1024 .. 16384, each dtype of the bench: 36 shapes a dtype
//   attention  forward and backward, causal, bf16: heads of 64 and 128, sequences 512 .. 8192
//   memory     4 KiB .. 1 GiB, half read and half written
//
// Tested by tests/unit/validate/calibrate_test.cpp.

#include <string>
#include <vector>

#include "sim/calibration/calibration.hpp"
#include "validate/calibrate.hpp"

namespace stepcast {

struct KernelUnit {
  std::string name;
  std::vector<Kernel> kernels;  // of one kind, dtype and pass
  int repetitions = 5;

  bool is_in(const Calibration& calibration) const;
};

std::vector<KernelUnit> kernel_units(const Bench& bench, bool quick);
void measure_kernels(Calibration& calibration, const Bench& bench, const KernelUnit& unit);

}  // namespace stepcast
