#pragma once
// Where a scenario said what somebody below refuses. Topologies, models and strategies know the
// names of keys, not where they were said: "gpus: 9 do not fit" becomes "job.toml:3: gpus: 9 do not
// fit" or "--gpus: 9 do not fit".

#include "base/error.hpp"
#include "sim/forecast/scenario.hpp"

namespace stepcast {

// Messages that begin with anything but a key of a scenario stay as they are.
InputError at_its_place(const Scenario& scenario, const InputError& error);

}  // namespace stepcast
