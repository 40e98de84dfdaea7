#pragma once
// Data loading of a scenario (loader_*, sample_bytes, storage_gbps): workers, bytes and seconds a
// sample. Tested by tests/unit/forecast/loader_test.cpp.

#include "sim/forecast/resolve.hpp"

namespace stepcast {

// Sets resolved.loader and the step's loader. Workload and cluster must be there. Without any of
// its keys batches are there when they are wanted. Throws InputError where one key lacks another.
void resolve_loader(const Scenario& scenario, Resolved& resolved);

}  // namespace stepcast
