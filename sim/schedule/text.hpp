#pragma once
// The text form of a schedule: prints, parses back to an equal schedule, and is what golden tests
// compare. The grammar is in docs/schedule-format.md.

#include <string>
#include <string_view>

#include "sim/schedule/schedule.hpp"

namespace stepcast {

std::string to_text(const Schedule& schedule);
// FILE is used in messages. Throws InputError naming file and line.
Schedule parse_schedule(std::string_view text, const std::string& file);

}  // namespace stepcast
