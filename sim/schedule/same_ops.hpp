#pragma once
// SameOp for every two programs of a role, each worked out when it is first asked for: engines,
// executors and the checks of a schedule read references to earlier steps with it. Not for several
// threads at once. Tested by what they do with first and second steps (tests/unit/engines,
// tests/unit/runtime, tests/unit/cuda, tests/unit/schedule).

#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include "sim/schedule/schedule.hpp"

namespace stepcast {

class SameOps {
 public:
  // `programs`: a role's steps, which outlive this.
  explicit SameOps(const std::vector<StepProgram>& programs) : programs_(&programs) {}

  // Where op `op` of program `here` stands in program `there`; -1 where that has no such op.
  OpIndex operator()(std::size_t here, std::size_t there, OpIndex op);

 private:
  const std::vector<StepProgram>* programs_;
  std::map<std::pair<std::size_t, std::size_t>, SameOp> known_;
};

}  // namespace stepcast
