#pragma once
// perturb and nccl_timeout of a scenario, with the machines that a mixed node needs.
// Tested by tests/unit/forecast/perturb_test.cpp.

#include "sim/forecast/resolve.hpp"

namespace stepcast {

class Sources;

// Sets resolved.perturbations, other_machines and nccl_timeout. Cluster and workload must be there.
// Throws InputError.
void resolve_perturbations(const Scenario& scenario, Resolved& resolved, Sources& sources);

}  // namespace stepcast
