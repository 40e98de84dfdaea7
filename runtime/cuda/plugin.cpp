#include "runtime/cuda/plugin.hpp"

#include <cstdlib>
#include <filesystem>

#include "runtime/cuda/library.hpp"

namespace stepcast::runtime {
namespace {

namespace fs = std::filesystem;

constexpr const char* file_name = "libstepcast_cuda.so";
constexpr const char* variable = "STEPCAST_CUDA_PLUGIN";

std::vector<std::string> places() {
  if (const char* named = std::getenv(variable); named != nullptr && *named != '\0') {
    std::error_code ignored;
    const fs::path path = named;
    return {(fs::is_directory(path, ignored) ? path / file_name : path).string()};
  }
  std::error_code failed;
  const fs::path program = fs::read_symlink("/proc/self/exe", failed);
  if (failed) return {file_name};
  const fs::path prefix = program.parent_path().parent_path();
  return {(prefix / "lib/stepcast" / file_name).string(),
          (prefix / STEPCAST_LIBDIR / "stepcast" / file_name).string()};
}

}  // namespace

GpuTables open_gpus(const PluginOptions& options) {
  std::string found;
  const std::vector<std::string> all = places();
  for (const std::string& place : all) {
    std::error_code ignored;
    if (fs::exists(place, ignored)) found = place;
    if (!found.empty()) break;
  }
  if (found.empty()) {
    throw GpuError("no CUDA plugin: " + all.front() + " is not there (" + file_name +
                   " is built where nvcc and NCCL are found; " + variable +
                   " names another place)");
  }
  const Library plugin = Library::open({found}, nullptr);
  std::remove_pointer_t<OpenTables>* open_tables = nullptr;
  plugin.get(open_tables_symbol, open_tables);
  std::string why;
  const std::unique_ptr<GpuTables> tables(open_tables(plugin_abi, &options, &why));
  if (!tables) throw GpuError(why);
  return *tables;
}

}  // namespace stepcast::runtime
