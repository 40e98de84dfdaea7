#pragma once
// Kernels that take a little longer on some ranks than on others: the step time of all ranks one by
// one, and folded into one that stands for all.
//
// A kernel of d seconds takes d (1 + persistent P + kernel K): P is drawn once a rank (a GPU that
// is slow all day), K once a kernel; both are standard normal. Collectives and the host do not
// vary. What matters is what has accumulated since ranks met last: under DDP a step's kernels,
// until the last bucket; under FSDP a unit's, for its gathers hold the ranks together.
//
//   expected maximum of n standard normals: 0.56 (2), 1.42 (8), 3.04 (512), 3.99 (16,384)
//
// Example: 8 ranks, kernels of 100 x 1 ms and an all-reduce, persistent 2 %, kernel 5 %. By then a
// rank is off by 100 ms * 0.02 = 2 ms for good and sqrt(100) * 1 ms * 0.05 = 0.5 ms by chance, 2.06
// ms in all; the last one of 8 comes 1.42 * 2.06 = 2.9 ms late. A meeting after each kernel
// instead: sqrt(0.02^2 + 0.05^2) = 0.054 ms * 1.42, a hundred times: 7.7 ms, for then luck does not
// even out.
//
//   jitter_of_ranks   max-plus over a vector of ranks, numbers drawn: what folding is tested with.
//                     16,384 ranks x 1,000 ops: half a second a step.
//   jitter_folded     one timestamp stands for all ranks: candidates for the slowest one, each with
//                     the time at which the ranks were together last and what has accumulated
//                     since. Later of two: both sets of candidates. A meeting of n ranks: the
//                     latest of base + e(n) * deviation. Milliseconds, at any number of ranks.
//
// Folding takes the maximum of expectations for the expectation of the maximum where two candidates
// are close, and the maximum over a shard group for normal: both a little low. Within 2 % of the
// vector for 8, 512 and 16,384 ranks: tests/unit/engines/jitter_test.cpp.
//
// Every op takes its solo time besides, as in the formula engine: what contention makes longer does
// not vary. One role only. Source of the notion: gang scheduling waits for the slowest of n
// (docs/perturbations.md).

#include <cstdint>

#include "sim/engines/cost_table.hpp"
#include "sim/schedule/schedule.hpp"

namespace stepcast {

struct Jitter {
  double persistent = 0;  // standard deviation over ranks, as part of a kernel's time
  double kernel = 0;      // the same over the kernels of a rank
  std::uint64_t seed = 1;
};

// Whether the schedule is of one role whose lanes share no lock.
bool can_jitter(const Schedule& schedule);

// The period of the steady step.
Seconds jitter_folded(const Schedule& schedule, const CostTable& costs, const Jitter& jitter);
// One draw; the mean of several steps.
Seconds jitter_of_ranks(const Schedule& schedule, const CostTable& costs, const Jitter& jitter);

// Of the largest of n independent standard normals.
struct LargestNormal {
  double mean = 0;
  double deviation = 1;
};
LargestNormal largest_of_normals(int n);

}  // namespace stepcast
