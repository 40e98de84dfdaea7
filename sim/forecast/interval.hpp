#pragma once
// How far a step may be from its forecast: the interval that holds it 8 times in 10.
//
// Four parts, as relative standard deviations of the step, taken as independent:
//   profile   What a fit of the software profile left over (SoftwareProfile::residual). Where
//   nobody
//             fitted it, how far the fitted ones of the catalog are from each other, of those on
//             GPUs whose products were measured: one more piece of software may be as far from the
//             kernel model as they are. A profile that was fitted on another GPU alone may be so,
//             too, beside its residual.
//   kernels   Of the time that rests on extrapolated costs. A fit on rows of this very GPU has seen
//             what the kernel model gets wrong of it, so nothing is added but for fp8, which no
//             fit saw. Elsewhere what `./dev kernels` finds when a whole GPU is left out: a step
//             runs many shapes, so what they have in common counts (the signed errors), and what
//             each is off by averages out over the 7 products of a block.
//               same architecture   signed 1.4 % (H100 and H200, products and attention), shapes
//                                   4.3 % / sqrt 7: 2.2 %
//               another             signed 9.9 and 14.8 % (H100 and L40S from A100): 12.6 %
//               fp8                 8.6, 6.0, 5.9 and 4.4 % (MAMF's best products): 6.4 %
//             Assumed costs (the host's): 20 %, which nobody measured.
//   network   Of exposed communication, 15 % within a node and 30 % between nodes. Calls on
//   machines
//             that nothing was fitted on are off by 6.5 % at the median from 16 MiB on and by 16 %
//             below (docs/collectives.md), standard deviations of 10 and 24 %; what is exposed is
//             the end of what lies behind compute and moves by more than itself.
//   scale     2 % of the step from the second node on: ranks that differ, switches that are shared.
//             Assumed.
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
  bool carried = false;   // ... and the residual of a fit on other GPUs
  double deviation() const;
};

StepInterval interval_of(const Report& report, const SoftwareProfile& profile);

// Standard deviation of the logarithms of the catalog's fitted gemm efficiencies, of the profiles
// that were fitted on GPUs with measured products.
double spread_of_profiles();

// "8 steps in 10 take 0.95 s to 1.03 s; deviations: profile 2.0 %, ..."
std::string words(const StepInterval& interval);

}  // namespace stepcast
