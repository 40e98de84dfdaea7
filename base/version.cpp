#include "base/version.hpp"

namespace stepcast {

std::string_view version() { return STEPCAST_VERSION; }

}  // namespace stepcast
