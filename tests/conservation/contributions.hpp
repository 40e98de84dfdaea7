#pragma once
// Follows every gradient contribution (what one backward op of one micro-batch writes into one
// view) through copies, casts and sums, by the views that ops read and write, and counts the
// reductions that it enters on each axis.
//
// What an op writes holds all contributions that it read; writing a view without reading it forgets
// what was there. Only gradients and their communication buffers are followed.

#include <map>
#include <string>
#include <vector>

#include "sim/schedule/schedule.hpp"

namespace stepcast::testing {

struct Contribution {
  std::string made_by;  // the op
  int micro_batch = 0;
  std::map<Axis, int> reductions;  // entered before the optimizer's step
};

// Of the first role's last program.
std::vector<Contribution> contributions(const Schedule& schedule);

}  // namespace stepcast::testing
