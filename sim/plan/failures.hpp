#pragma once
// A job with failures, played out event by event: what checkpoints.hpp says in a formula, without
// the formula.
//
// Events: an interval of training ends and the checkpoint stops it; the snapshot is taken and
// training goes on; the checkpoint is on the storage; the job fails; it has started again. Times to
// failure are drawn from an exponential distribution by a generator of our own seed (mt19937_64 and
// -M log(1 - u), the same on every machine). The end of the training is the end of its last
// interval.
//
// Cost: about four events a checkpoint; a year with an interval of an hour is 35,000. Tested by
// tests/unit/plan/checkpoints_test.cpp.

#include <cstdint>

#include "sim/plan/checkpoints.hpp"

namespace stepcast {

struct JobRun {
  Seconds wall = 0;  // from the first step to the last; infinite: given up
  std::int64_t failures = 0;
  std::int64_t checkpoints = 0;  // that reached the storage
};

// `work` seconds of training without a failure or a checkpoint.
JobRun run_job(Seconds work, Seconds interval, const CheckpointCost& cost,
               const FailureRates& rates, std::uint64_t seed);

struct JobRuns {
  int runs = 0;
  Seconds mean = 0, low = 0, high = 0;  // of wall; low and high hold 8 runs in 10
  double failures = 0;                  // a run
};
// Seeds are seed, seed + 1, ... A run that would take more than a thousand times `work`, or fail
// two million times, is given up: then runs is 0.
JobRuns run_jobs(int runs, Seconds work, Seconds interval, const CheckpointCost& cost,
                 const FailureRates& rates, std::uint64_t seed);

}  // namespace stepcast
