#include "sim/engines/simgrid_version.hpp"

#include <fmt/format.h>
#include <xbt/base.h>

// After what it leans on.
#include <simgrid/version.h>

namespace stepcast {

std::string simgrid_version() {
  int major = 0, minor = 0, patch = 0;
  sg_version_get(&major, &minor, &patch);
  return fmt::format("{}.{}.{}", major, minor, patch);
}

}  // namespace stepcast
