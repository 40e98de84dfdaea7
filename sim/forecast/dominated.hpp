#pragma once
// Resources that can never be the bottleneck, dropped before an engine sees them.
//
// If every segment that asks for `a` asks at least as much of `b`, then whatever runs at one time,
// `a` is at most as busy as `b`: b's share decides, and a only costs time in the solver. Of two
// that are always equal the later one goes.
//
// Example: on a DGX H100 an all-gather between nodes loads NVLink (450 GB/s) less than the NICs
// (8 x 50 GB/s); where no collective stays within the node, NVLink never limits.
//
// Tested by tests/unit/forecast/bind_test.cpp.

#include "sim/engines/cost_table.hpp"

namespace stepcast {

void drop_dominated(CostTable& table);

}  // namespace stepcast
