#pragma once
// Which SimGrid runs underneath.

#include <string>

namespace stepcast {

std::string simgrid_version();  // "3.32.0", of the library that is loaded

}  // namespace stepcast
