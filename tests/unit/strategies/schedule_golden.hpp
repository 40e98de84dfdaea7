#pragma once
// Compares a schedule with its text in golden/NAME.txt, and leaves the new text in the working
// directory when they differ: read the difference, then copy it over.

#include <string>

#include "sim/schedule/schedule.hpp"

namespace stepcast::testing {

void check_golden(const Schedule& schedule, const std::string& name);

}  // namespace stepcast::testing
