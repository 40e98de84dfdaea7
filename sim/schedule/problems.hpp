#pragma once
// What is wrong with a schedule, as sentences; empty means sound. Returns, never throws: a
// schedule may come from a file.
//
// Finds: a collective that not every rank of its communicator issues, or that differs between roles
// in order, bytes, dtype or reduction; use after free, double free, use before alloc; a read of
// what nothing wrote; two unordered ops on overlapping views of which one writes; a wait on what
// never runs (out of range, not earlier in host order). Happens-before is the union of the three
// queues and the waits (see schedule.hpp); the cost is O(ops * streams) by vector clocks.

#include <string>
#include <vector>

#include "sim/schedule/schedule.hpp"

namespace stepcast {

std::vector<std::string> problems(const Schedule& schedule);

}  // namespace stepcast
