#pragma once
// What a step loses to the slowest of its ranks, under the profile's rank_jitter.
//
// All ranks run the same program, so a forecast follows one of them; but a collective begins when
// the last one has come. GPUs of one kind differ by a percent or two for good (clock, heat, power),
// and the expected slowest of n is e(n) deviations behind: 0 for 1 rank, 0.56 for 2, 1.42 for 8,
// 2.34 for 64, 3.51 for 2,048. That is the part of scaling that no faster network mends.
//
// Example: 8 GPUs, 100 ms of kernels, rank_jitter 2 %: 1.42 * 2 ms = 2.8 ms; on 64 GPUs 4.7 ms.
//
// The loss is that of the step's solo times (sim/engines/jitter.hpp): the folded walk with jitter
// less the same without, some milliseconds of work. It is added to the step as the exposed part
// "slowest_rank". None where a schedule has several roles, whose ranks differ by what they do.
// Tested by tests/unit/forecast/stragglers_test.cpp; whether it holds: docs/accuracy.md.

#include "sim/engines/cost_table.hpp"
#include "sim/engines/engine.hpp"
#include "sim/kernels/profile.hpp"
#include "sim/schedule/schedule.hpp"
#include "sim/schedule/timeline.hpp"

namespace stepcast {

Seconds straggling(const Schedule& schedule, const CostTable& costs,
                   const SoftwareProfile& profile);

// A step of these costs: what the engine says, and what the slowest rank adds.
Seconds step_with_slowest(Engine& engine, const Schedule& schedule, const CostTable& costs,
                          const RunOptions& options, const SoftwareProfile& profile);

// Puts the loss into a timeline of ranks that are alike, so that what is drawn and walked is as
// long as the step: the last collective of each step's backward (of the step where there is none)
// waits for its peers so much longer, and all that comes after comes later.
void show_straggling(const Schedule& schedule, Seconds lost, Timeline& timeline);

}  // namespace stepcast
