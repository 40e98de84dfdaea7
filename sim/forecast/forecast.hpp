#pragma once
// From a scenario to a forecast: resolve, build the schedule, bind the costs, run the engine, read
// the timeline.
//
//   Forecast f = forecast(read_scenario("examples/llama-3-8b.toml"));
//   std::cout << to_text(f.report);
//
// Tested by tests/unit/forecast and, end to end, tests/cli.

#include <optional>
#include <string>

#include "sim/collectives/collective_cost.hpp"
#include "sim/engines/cost_table.hpp"
#include "sim/forecast/perturb.hpp"
#include "sim/forecast/resolve.hpp"
#include "sim/forecast/scenario.hpp"
#include "sim/memory/replay.hpp"
#include "sim/report/report.hpp"
#include "sim/schedule/schedule.hpp"
#include "sim/schedule/timeline.hpp"

namespace stepcast {

struct Forecast {
  Resolved resolved;
  Schedule schedule;
  CostTable costs;
  Timeline timeline;
  std::vector<RoleReplay> memory;  // through the caching allocator, a role
  Report report;
  Seconds straggling = 0;              // the slowest rank's part of the step (stragglers.hpp)
  std::optional<Perturbed> perturbed;  // where the scenario perturbs ranks
};

struct ForecastOptions {
  // When the step does not fit, look for the smallest change that does (a few more schedules).
  bool search_change = true;
  bool alike = false;   // ranks differ by nothing, as those that replay a forecast
  bool to_run = false;  // the schedule will be executed: no retries of the allocator in it
  bool go_on = false;   // by messages with more than 64 ranks too
  // Schedule, timeline and memory of all micro-batches. Otherwise they may be those of fewer, and
  // the report is worked out (accumulated.hpp).
  bool whole = true;
};

// Throws InputError. A step that does not fit is a Forecast with report.fits == false.
Forecast forecast(const Scenario& scenario, const ForecastOptions& options = {});

// What a timeline of this schedule says, forecast or measured (`stepcast run`).
Report report_of(const Resolved& resolved, const Schedule& schedule, const CostTable& costs,
                 const Timeline& timeline, const Collectives& collectives);

// The same, phase by phase, for benchmarks.
Forecast forecast(Resolved resolved);

}  // namespace stepcast
