#pragma once

#include <string>
#include <string_view>

namespace stepcast {

// "0.1.0": the version of the project in CMakeLists.txt.
std::string_view version();

// "0.1.0+4f1d9c0a7be2": the version, and what tells this program from every other that was built
// of it, so that results that are kept are found again by the program that made them alone. Two
// builds differ where any code, or any embedded file of a catalog, differs; one copied to another
// machine, or stripped, is the same. Behind the plus stand 12 digits of the linker's build id
// (--build-id, a hash of what it has linked), read from the running program; of a program without
// one, of a hash of its file. Tested by tests/unit/base/version_test.cpp.
const std::string& build_version();

}  // namespace stepcast
