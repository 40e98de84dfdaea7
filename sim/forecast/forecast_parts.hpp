#pragma once
// The parts of a forecast that evaluator.cpp puts together again with what it has kept. Internal to
// sim/forecast.

#include <memory>
#include <optional>
#include <vector>

#include "base/error.hpp"
#include "sim/engines/engine.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/forecast/placed.hpp"

namespace stepcast {

// `broken`: with what the scenario perturbs (messages, which go over links that are there).
std::unique_ptr<Engine> engine_of(const Resolved& resolved, bool broken = false);

// The step that the scenario asks for. Throws InfeasibleError where it never ends.
Timeline run_reported_step(const Resolved& resolved, const Schedule& schedule,
                           const CostTable& costs);

// The step with what its allocator's retries cost in it.
struct RetriedStep {
  Schedule schedule;
  CostTable costs;
  Timeline timeline;
  std::vector<RoleReplay> memory;
};

// Where `replays` of the steady step's timeline, `without` seconds long, found retries: the step
// run again with them (sim/memory/retries.hpp), and `roles` with what is reserved then.
//
// Taken where the step with its waits retries at the same ops again. It need not: a host that has
// waited has lost its lead, so fewer blocks wait for streams (record_stream), and where that was
// what filled the device, there are fewer retries after some. Then the truth is between the step
// without and the step with all of them: nothing is returned, and `roles` say how long the latter
// is. Nothing either of a first step, which is not the program that repeats, and where the device
// cannot hold the step at all.
std::optional<RetriedStep> retried_step(const Resolved& resolved, const Schedule& schedule,
                                        const Collectives& collectives, Seconds without,
                                        const std::vector<RoleReplay>& replays,
                                        std::vector<RoleMemory>& roles);

// report_of() where the ledger (memory_of_roles) is known already.
Report report_of(const Resolved& resolved, const Schedule& schedule, const CostTable& costs,
                 const Timeline& timeline, const Collectives& collectives,
                 std::vector<RoleMemory> memory);

// Samples and operations a second of a report whose step time is known.
void add_speed(const Resolved& resolved, Report& report);

// What ranks that differ lose, added to step and split; not of a run, whose ranks did differ.
Seconds add_stragglers(const Resolved& resolved, const Schedule& schedule, const CostTable& costs,
                       Report& report);

}  // namespace stepcast
