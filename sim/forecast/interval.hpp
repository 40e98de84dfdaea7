#pragma once
// How far a step may be from its forecast: the interval that holds it 8 times in 10.
//
// Parts, as relative standard deviations of the step, taken as independent:
//   profile   What a fit of the software profile left over (SoftwareProfile::residual). Where
//             nobody fitted it, how far the fitted ones of the catalog are from it, of those on
//             GPUs whose products were measured: one more piece of software may be as far from the
//             kernel model as they are. All of the step by what they differ in products (10 %),
//             since that holds what is common to all kernels, and attention, memory-bound kernels
//             and the head on top, each by its part of the step: memory-bound kernels alone are 38
//             % apart, since how many there are is the software's own. A profile that was fitted on
//             another GPU alone may be so, too, beside its residual.
//   kernels   Of the time that rests on extrapolated costs. A fit on rows of this very GPU has seen
//             what the kernel model gets wrong of it, so nothing is added but for fp8, which no
//             fit saw. Elsewhere what `./dev kernels` finds when a whole GPU is left out: a step
//             runs many shapes, so what they have in common counts (the signed errors), and what
//             each is off by averages out over the 7 products of a block.
//               same architecture   signed 1.4 % (H100 and H200, products and attention), shapes
//                                   4.3 % / sqrt 7: 2.2 %
//               another             signed 9.9 and 14.8 % (H100 and L40S from A100): 12.6 %
//               fp8                 8.6, 6.0, 5.9 and 4.4 % (MAMF's best products): 6.4 %
//             Convolutions, none of which was measured anywhere: 27 %. That is assumed, too: 8 of
//             10 run at between half and all of the rate of the product of their sizes, which for
//             a logarithm is ln 2 / 2.56.
//             Assumed costs (the host's): 20 %, which nobody measured.
//   network   Of exposed communication, 15 % within a node and 30 % between nodes. Calls on
//             machines that nothing was fitted on are off by 6.5 % at the median from 16 MiB on and
//             by 16 % below (docs/collectives.md), standard deviations of 10 and 24 %; what is
//             exposed is the end of what lies behind compute and moves by more than itself.
//   scale     2 % of the step from the second node on, for switches that are shared: assumed. And
//             what the slowest rank costs (stragglers.hpp), which is known as well as how much
//             ranks differ is: its logarithm by 1 where rows on GPUs of one number were fitted, or
//             none, which is the fit's prior, by 0.7 where a fit found it. Of a normal logarithm 8
//             in 10 lie within sinh(1.28 * 1) = 1.66 of the loss, a deviation of 1.30 of it (0.80
//             where fitted). Of a fitted profile only what is beyond the GPUs that its rows had
//             (SoftwareProfile::fitted_gpus): the rest is in its factors.
//   memory    Only upwards, where the allocator reserves 95 % and more of what it may: 11.6 %. The
//             12 fitted rows of llm-foundry in the ledger of which that is forecast are so far off
//             (root mean square), 5 of them 8.5 % and more too fast. Retries are in the step or
//             said beside it; in neither is that ranks retry one after the other, and that what a
//             layer keeps is one block in the replay, where the allocator has pieces that leave
//             holes. Where the step time leaves retries out, `high` is a step with all of them at
//             least.
//
// Example: residual 2 %, all kernels modelled, 16 nodes, 6 % of the step exposed between nodes:
// sqrt(2^2 + 1.8^2 + 2^2) = 3.4 %, times 1.28: 4.3 % to either side. 3 % more for the slowest of
// 128 ranks under a profile fitted on 8: (1 - 1.42 / 2.59) * 3 % * 1.30 = 1.76 %, 3.8 % in all.
// Tested by tests/unit/validate/interval_test.cpp and full_device_test.cpp; how often it holds:
// docs/accuracy.md.

#include "sim/kernels/profile.hpp"
#include "sim/report/report.hpp"

namespace stepcast {

struct StepInterval {
  Seconds low = 0;                                          // one step in ten is faster
  Seconds high = 0;                                         // one in ten is slower
  double profile = 0, kernels = 0, network = 0, scale = 0;  // relative standard deviations
  double memory = 0;                                        // of `high` alone
  bool borrowed = false;     // `profile` is how far fitted profiles are, not this one's residual
  bool carried = false;      // ... and the residual of a fit on other GPUs
  double deviation() const;  // of the four that are both ways
};

StepInterval interval_of(const Report& report, const SoftwareProfile& profile);

// How far the catalog's other fits are from a profile in one rate: root mean square of the
// logarithms, of those whose rows determined it on GPUs with measured products.
double spread_of_profiles(Rate which, const SoftwareProfile& around);

// "8 steps in 10 take 0.95 s to 1.03 s; deviations: profile 2.0 %, ..."
std::string words(const StepInterval& interval);

}  // namespace stepcast
