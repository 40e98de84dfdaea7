#pragma once

#include <string_view>

namespace stepcast {

// "0.1.0": the version of the project in CMakeLists.txt.
std::string_view version();

}  // namespace stepcast
