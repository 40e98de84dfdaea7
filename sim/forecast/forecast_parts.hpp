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

// Where `replays` of the steady step's timeline found retries: the step run again with them
// (sim/memory/retries.hpp), and `roles` with what is reserved then.
//
// A host that has waited has lost its lead, so fewer blocks wait for streams, and where that was
// what filled the device the next step retries nowhere: the steps take turns. Then there is nothing
// to run instead, and `roles` say how long a step with retries is. Of a first step nothing: it is
// not the program that repeats.
std::optional<RetriedStep> retried_step(const Resolved& resolved, const Schedule& schedule,
                                        const Collectives& collectives,
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
