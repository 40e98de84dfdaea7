#pragma once
// A scenario as the command that simulates it: "stepcast simulate --model gpt2 --nodes 4 ...". The
// flags stand in the order of visit_scenario(); what a shell would read differently is quoted.
// Tested by tests/unit/forecast/command_line_test.cpp.

#include <string>

#include "sim/forecast/scenario.hpp"

namespace stepcast {

std::string command_of(const Scenario& scenario, const std::string& command = "simulate");

}  // namespace stepcast
