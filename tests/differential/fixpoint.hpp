#pragma once
// A third, deliberately simple-minded way to the times of a schedule without locks: guess that
// every collective starts at 0, walk each role's program once with those guesses, take the latest
// arrival of all roles as the new guess, and repeat until nothing moves. Slow, and obviously right.

#include <vector>

#include "sim/engines/cost_table.hpp"
#include "sim/schedule/schedule.hpp"

namespace stepcast::testing {

struct OpTime {
  Seconds start = 0;
  Seconds end = 0;
};

// [role][step][op]; only ops on streams have a start.
using OpTimes = std::vector<std::vector<std::vector<OpTime>>>;

// All communicators are taken to span all roles unless their axis is `shard` (then none).
OpTimes fixpoint(const Schedule& schedule, const CostTable& costs,
                 const std::vector<int>& programs);

}  // namespace stepcast::testing
