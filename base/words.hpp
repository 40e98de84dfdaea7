#pragma once
// Words of a line that a person copied from a terminal: without colours and underlines (ESC [ 4 m),
// carriage returns, byte order marks and the no-break spaces that pages put into listings.
//
//   plain_words("\x1b[4mGPU0\tGPU1\x1b[0m\r") -> {"GPU0", "GPU1"}

#include <string>
#include <string_view>
#include <vector>

namespace stepcast {

std::vector<std::string> plain_words(std::string_view line);

}  // namespace stepcast
