#pragma once
// Which buffer owns the memory of a view, and which role the persistent ones belong to.

#include <vector>

#include "sim/schedule/schedule.hpp"

namespace stepcast {

// The buffer itself, or at the end of the chain of views the one that owns the memory.
BufferIndex owner_of(const Schedule& schedule, BufferIndex buffer);

// persistent_of_role()[b]: buffer b is persistent, owns memory, and is held by the ranks of the
// role. With several roles (nn.DataParallel: GPU 0 and the rest) a buffer is held by the roles that
// read or write it, and by all of them when none does.
std::vector<bool> persistent_of_role(const Schedule& schedule, int role);

}  // namespace stepcast
