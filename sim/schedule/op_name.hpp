#pragma once
// The name of one op, as op_names() (schedule.hpp) has it among all: for who needs a few of
// thousands. One pass over the step without making a name but this one.

#include <string>

#include "sim/schedule/schedule.hpp"

namespace stepcast {

std::string op_name(const Schedule& schedule, const StepProgram& step, OpIndex op);

}  // namespace stepcast
