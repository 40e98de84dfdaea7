#pragma once
// A step with some ranks slow, late or missing, links broken or nodes of another kind
// (perturbation.hpp), against the step without.
//
// Data parallelism is gang scheduled: a collective begins when its last rank comes, so what one
// rank loses its peers wait for. Who waits where is the strategy's doing: under FSDP everybody
// meets in every all-gather, under HSDP other shard groups meet the slow rank's only in the
// all-reduce, once an accumulation.
//
//   slow     holds in every step: the period of the steady step is compared. So do broken links and
//            nodes of another machine.
//   late     holds once. All ranks are idle when the step begins, and the late one's host turns to
//            it so much later; what the step takes longer than without is added to the period.
//   missing  the step is issued by all but the missing ranks. Nothing moves any more when each peer
//            stands at a collective that a missing rank, or one who waits for it, has not entered.
//
// The watchdog: a collective that has not ended `timeout` seconds after its host issued it ends the
// job on the rank that sees it first (PyTorch's ProcessGroupNCCL, docs/sources.md R8). So a rank
// that is late by more than that ends the job too.
//
// Example, DDP, step 1.0 s, rank 17 late by 5 s: its peers stand in the first bucket's all-reduce,
// the step takes 6.0 s, goodput 0.17. Cost: two to four engine runs, of few classes.
//
// A rank that waits in a collective spins on its SMs and so slows its own kernels (fluid engine).
// Tested by tests/unit/forecast/perturb_test.cpp.

#include <optional>
#include <vector>

#include "sim/engines/cost_table.hpp"
#include "sim/engines/engine.hpp"
#include "sim/forecast/perturbation.hpp"
#include "sim/forecast/perturbed_costs.hpp"
#include "sim/forecast/rank_classes.hpp"
#include "sim/report/perturbed.hpp"
#include "sim/schedule/schedule.hpp"
#include "sim/schedule/timeline.hpp"

namespace stepcast {

struct PerturbOptions {
  std::vector<Perturbation> perturbations;
  Seconds timeout = 600;           // of the communicators
  std::vector<int> programs = {};  // as RunOptions; empty: to the steady step
  Folding folding = Folding::classes;
  OtherCosts other = {};   // other_costs() of the same perturbations
  Seconds straggling = 0;  // what ranks lose to the slowest anyway (stragglers.hpp), in `before`
  double rank_jitter = 0;  // ... and how much they differ; perturbed jitter comes on top of it
};

struct Perturbed {
  PerturbedStep report;  // all but tokens_per_second
  Schedule schedule;     // a role for each class
  CostTable costs;
  // Of the perturbed step; nothing when a rank is missing, for then it never ends.
  std::optional<Timeline> timeline;
};

// `before`: the step time without perturbation.
Perturbed perturb(const Schedule& schedule, const CostTable& costs, Engine& engine, Seconds before,
                  const PerturbOptions& options);

}  // namespace stepcast
