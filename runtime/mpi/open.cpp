#include "runtime/mpi/open.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "base/error.hpp"

namespace stepcast::runtime {
namespace {

constexpr const char* plugin = "libstepcast_mpi.so";

std::vector<std::filesystem::path> places() {
  if (const char* said = std::getenv("STEPCAST_MPI_PLUGIN")) return {said};
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  const auto prefix = program.parent_path().parent_path();
  return {prefix / "lib/stepcast" / plugin, prefix / STEPCAST_LIBDIR / "stepcast" / plugin};
}

[[noreturn]] void refuse(const std::string& why) {
  throw InputError({.file = "MPI", .line = 0, .key = ""}, why);
}

}  // namespace

int launched_rank() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"}) {
    if (const char* rank = std::getenv(name)) return std::atoi(rank);
  }
  return -1;
}

bool under_mpirun() { return launched_rank() >= 0; }

std::string mpi_plugin() {
  for (const std::filesystem::path& path : places()) {
    std::error_code ignored;
    if (std::filesystem::exists(path, ignored)) return path.string();
  }
  return "";
}

std::unique_ptr<Wire> open_mpi() {
  std::string tried;
  for (const std::filesystem::path& path : places()) {
    if (!std::filesystem::exists(path)) {
      tried += (tried.empty() ? "" : ", ") + path.string();
      continue;
    }
    // Global: Open MPI opens components that look for its symbols among the global ones. Deep: the
    // program is linked to SimGrid, whose library has an MPI of its own under the same names.
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL | RTLD_DEEPBIND);
    if (library == nullptr) refuse(fmt::format("{} does not load: {}", path.string(), dlerror()));
    // A plugin has one function, found by its name.
    const auto open = reinterpret_cast<OpenWire>(dlsym(library, "stepcast_open_wire"));
    if (open == nullptr) refuse(fmt::format("{} is no plugin of stepcast", path.string()));
    char why[256] = "";
    std::unique_ptr<Wire> wire(open(wire_interface, why, sizeof why));
    if (!wire) refuse(fmt::format("{}: {}", path.string(), why));
    return wire;
  }
  refuse(fmt::format(
      "{} is not there ({}): stepcast was built without MPI; accepted: a build where CMake finds "
      "MPI (Debian: libopenmpi-dev), or a run on threads",
      plugin, tried));
}

}  // namespace stepcast::runtime
