#pragma once
// The parts of a forecast that evaluator.cpp puts together again with what it has kept. Internal to
// sim/forecast.

#include <memory>
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
