#pragma once
// The factors of a software profile that a fit may move: at most eight, each with a physical
// meaning, none of a row, a model or a scale.
//
//   gemm, attention, memory   rate of such kernels against what the kernel model says the GPU does
//   head                      the same for the output layer and the loss
//   optimizer                 the same for the optimizer's kernels
//   collective                rate of collectives inside a step against the model of them alone
//   launch                    host time of one CUDA launch; a factor on launch_us
//   host                      every named host work; a factor on host_us
//   overlap                   how much of the SMs and the memory a collective takes from kernels
//                             beside it; a factor on its demands
//   jitter                    how much ranks differ (rank_jitter), which costs a step the expected
//                             slowest of its ranks; a base without it begins at 1 %
//
// A factor is a rate or a time in the profile; the fit works on logarithms, so that twice and half
// are equally far. `prior` says how far from 1 it is expected (one standard deviation of the
// logarithm): what the rows do not determine stays where the base profile has it.

#include <string>
#include <vector>

#include "base/error.hpp"
#include "sim/kernels/profile.hpp"

namespace stepcast {

struct Factor {
  const char* name;                                    // "gemm"
  const char* meaning;                                 // "rate of matrix products"
  double prior;                                        // standard deviation of the logarithm
  void (*scale)(SoftwareProfile& profile, double by);  // the time of what it governs, by this
};

const std::vector<Factor>& all_factors();
const Factor& factor_named(const std::string& name, const Where& where);  // throws InputError

// `base` with each factor's times multiplied.
SoftwareProfile scaled(const SoftwareProfile& base, const std::vector<const Factor*>& factors,
                       const std::vector<double>& by);

}  // namespace stepcast
