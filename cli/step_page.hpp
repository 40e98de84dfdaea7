#pragma once
// The document that the report page draws of one forecast: the forecast as JSON, the step's
// streams, memory and machine, and the same scenario on other numbers of nodes. For `simulate
// --report` and `serve`. docs/page.md describes it.

#include <string>

#include "sim/forecast/forecast.hpp"

namespace stepcast::cli {

// JSON of what `scenario` gives on 1, 2, 4, ... nodes, to four times its own and at least 8, 1024
// at most, its own among them. Steps of many operations are forecast by the formula engine. Sizes
// that the scenario does not allow are named with the reason. A machine that stands alone: one
// point.
std::string scaling_document(const Scenario& scenario, const Report& report);

// `scaling`: what scaling_document() said, or "null".
std::string step_document(const Forecast& f, const Scenario& scenario, const std::string& scaling);

}  // namespace stepcast::cli
