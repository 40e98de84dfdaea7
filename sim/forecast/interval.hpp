#pragma once
// How far a step may be from its forecast: the interval that holds it 8 times in 10.
//
// Four parts, as relative standard deviations of the step, taken as independent:
//   profile   what a fit of the software profile left over (SoftwareProfile::residual); where
//   nobody
//             fitted it, how far the fitted ones of the catalog are from each other: one more piece
//             of software may be as far from the kernel model as they are
//   kernels   of the time that rests on extrapolated or assumed costs, 10 and 20 %
//   network   of exposed communication, 15 % within a node and 30 % between nodes; a fit on one
//             node has seen the former but not the latter
//   scale     2 % of the step from the second node on: ranks that differ, switches that are shared
//
// Example: residual 2 %, all kernels modelled, 16 nodes, 6 % of the step exposed between nodes:
// sqrt(2^2 + 1.8^2 + 2^2) = 3.4 %, times 1.28: 4.3 % to either side.
// Tested by tests/unit/validate/interval_test.cpp; how often it holds: docs/accuracy.md.

#include "sim/kernels/profile.hpp"
#include "sim/report/report.hpp"

namespace stepcast {

struct StepInterval {
  Seconds low = 0;                                          // one step in ten is faster
  Seconds high = 0;                                         // one in ten is slower
  double profile = 0, kernels = 0, network = 0, scale = 0;  // relative standard deviations
  bool borrowed = false;  // `profile` is how fitted profiles differ, not this one's residual
  double deviation() const;
};

StepInterval interval_of(const Report& report, const SoftwareProfile& profile);

// Standard deviation of the logarithms of the catalog's fitted gemm efficiencies.
double spread_of_profiles();

// "8 steps in 10 take 0.95 s to 1.03 s; deviations: profile 2.0 %, ..."
std::string words(const StepInterval& interval);

}  // namespace stepcast
