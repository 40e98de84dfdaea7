#pragma once
// How long a run on CPUs is told to take for each op: its seconds alone by the forecast's costs,
// without what an executor adds (op_overhead_us of a calibration): the run adds that itself.

#include "runtime/replay.hpp"
#include "sim/forecast/forecast.hpp"

namespace stepcast {

runtime::Durations durations_of(const Schedule& schedule, const CostTable& costs);

// Of a forecast that may hold a calibration's overhead.
runtime::Durations run_durations(const Forecast& forecast);

}  // namespace stepcast
