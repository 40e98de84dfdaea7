#pragma once
// Slurm's hostlist expressions.
//
//   "gpu[01-03,10],login"          gpu01 gpu02 gpu03 gpu10 login
//   "rack[0-1]node[0-1]"           rack0node0 rack0node1 rack1node0 rack1node1
//
// A range keeps the width of its first number. Tested by tests/unit/importers/fabric_test.cpp.

#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"

namespace stepcast {

// Throws InputError at `where`: a bracket that is not closed, a range that falls, no name, more
// than a million hosts.
std::vector<std::string> expand_hostlist(std::string_view text, const Where& where);

}  // namespace stepcast
