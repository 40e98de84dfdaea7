#pragma once
// Why a step takes as long as it does: the critical path, what is exposed and what made it so, what
// more of each resource would gain, and the one change that gains most.
//
//   Explanation e = explain(read_scenario("job.toml"));
//   std::cout << to_text(e);
//
// Every sentence is about a number of this forecast, and every gain is a forecast of its own
// (sensitivity.hpp, changes.hpp). Cost: 20 to 40 forecasts, about a second. Tested by
// tests/unit/explain; three questions that people asked in public are answered by it in
// tests/stories.

#include <optional>
#include <string>
#include <vector>

#include "sim/explain/changes.hpp"
#include "sim/explain/critical_path.hpp"
#include "sim/explain/sensitivity.hpp"
#include "sim/forecast/forecast.hpp"

namespace stepcast {

// Communication that nothing hides, and what made it so.
struct ExposedCause {
  std::string cause;  // of TimeSplit: "tail_all_reduce"
  Seconds seconds = 0;
  std::string place, numbers;  // a sentence: where in the step, and what was sent there
  // Of the calls of this kind in a step:
  int calls = 0;
  double bytes = 0;         // of a call, the middle one
  Seconds all = 0;          // as they ran
  double latency_part = 0;  // of their time alone, what does not grow with the bytes
  std::string link;         // that they load longest; empty: none
};

// What the CPU does in a step, largest first.
struct HostCost {
  std::string work;  // "launches", "collectives", "zero_grad_hook"
  int count = 0;
  Seconds seconds = 0;
};

// DDP only: which side of the bucket size binds.
struct BucketSide {
  enum class Side : std::uint8_t { flat, latency, overlap };
  double mib = 0;       // as it is
  Seconds smaller = 0;  // the step with a quarter of it
  Seconds larger = 0;   // and with four times
  Side side = Side::flat;
};

struct Explanation {
  Report report;
  std::string command;
  CriticalPath path;
  std::vector<ExposedCause> exposed;  // longest first
  std::vector<HostCost> host;
  Seconds host_busy = 0;  // of the busiest lane, a step
  std::vector<Sensitivity> sensitivities;
  std::optional<BucketSide> bucket;
  std::vector<Change> changes;         // tried, fastest first
  int best = -1;                       // into changes; -1: none gains
  std::vector<std::string> sentences;  // why, most important first
};

// Throws InputError; InfeasibleError where there is no step. One that does not fit is explained all
// the same.
Explanation explain(const Scenario& scenario);

// For tests: from a forecast that is there, without trying changes.
std::vector<ExposedCause> exposed_causes(const Report& report, const Cluster& cluster);
std::vector<HostCost> host_costs(const Schedule& schedule, const CostTable& costs, int program,
                                 Seconds& busiest_lane);
// `smaller` and `larger` against the step as it is: more than 1 % faster decides.
BucketSide::Side side_of(Seconds now, Seconds smaller, Seconds larger);

std::string to_text(const Explanation& explanation);
std::string to_json(const Explanation& explanation);  // schema "stepcast.explain/1"

}  // namespace stepcast
