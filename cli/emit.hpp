#pragma once
// What `emit`, `import job --emit` and `tune --emit` have in common.

#include <string>

#include "sim/forecast/scenario.hpp"

namespace stepcast::cli {

// The scenario as FORMAT's configuration (sim/jobs/emit.hpp); what that cannot say is noted.
std::string emitted(const Scenario& scenario, const std::string& format);

}  // namespace stepcast::cli
