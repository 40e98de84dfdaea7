#pragma once
// Words of a line that a person copied from a terminal: without colours and underlines (ESC [ 4 m,
// also where a page swallowed the ESC or a log wrote it out: "[4m", "^[[4m"), carriage returns,
// byte order marks and the no-break spaces that pages put into listings.
//
//   plain_words("\x1b[4mGPU0\tGPU1\x1b[0m\r") -> {"GPU0", "GPU1"}

#include <string>
#include <string_view>
#include <vector>

namespace stepcast {

std::vector<std::string> plain_words(std::string_view line);

// A date, a time of the day or both, as logs begin their lines: "2026-11-30T20:00:00.5Z",
// "[2026-11-30", "20:00:00,123]".
bool is_time(std::string_view word);

}  // namespace stepcast
