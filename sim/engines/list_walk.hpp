#pragma once
// The formula engine for one role without locks: max-plus in one pass over each step.
//
// A wait of a single role only looks back in the program, so when the walk reaches an op everything
// that can hold it is known: the end of the op before it on its stream, of the collective before it
// on its communicator, of what its stream waits for, and when the lane issues it. Its start is the
// latest of these, its end the start plus its time alone.
//
//   all_gather a  (2 s, stream g)   start 0, end 2
//   wait c on a                     stream c is held until 2
//   compute x     (3 s, stream c)   start 2 (bound: wait, cause a), end 5
//
// Cost: O(ops + references) a step, flat arrays, no allocation but the results; 1,500 ops take
// about 20 us. Tested by tests/unit/engines and, against the ready queue and SimGrid, by
// tests/differential.

#include "sim/engines/run_plan.hpp"

namespace stepcast {

// Whether list_walk can run this: one role, and no two lanes with the same lock.
bool is_one_pass(const Schedule& schedule);
Timeline list_walk(RunPlan& plan);

}  // namespace stepcast
