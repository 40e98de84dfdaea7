#pragma once
// The steps of a timeline whose spans were measured, on CPUs and on GPUs.

#include <vector>

#include "sim/schedule/schedule.hpp"
#include "sim/schedule/timeline.hpp"

namespace stepcast::runtime {

// A step ends with its last span; the next one begins there. `programs`: by step, which of a role's
// programs ran.
void add_steps(Timeline& timeline, const Schedule& schedule, const std::vector<int>& programs);

}  // namespace stepcast::runtime
