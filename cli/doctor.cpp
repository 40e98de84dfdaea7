// stepcast doctor: what of its surroundings stepcast finds, what is missing, what that costs, and
// the command that brings it. Nothing missing is an error: forecasts need none of it.
// Tested by tests/cli/shell_test.cpp.

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/error.hpp"
#include "base/version.hpp"
#include "cli/command.hpp"
#include "runtime/cuda/plugin.hpp"
#include "runtime/mpi/open.hpp"
#include "sim/engines/simgrid_version.hpp"
#include "sim/report/format.hpp"
#include "sim/report/html_page.hpp"
#include "sim/sweep/store.hpp"

namespace stepcast::cli {

namespace {

struct Finding {
  std::string what;  // "MPI"
  bool found = true;
  std::string is;     // what was found, or why nothing was
  std::string gives;  // what it is for
  std::string bring;  // a command; "" where there is none to give
};

// The first file of that name in $PATH.
std::string program_at(const std::string& name) {
  const char* path = std::getenv("PATH");
  if (path == nullptr) return "";
  const std::string folders = path;
  std::size_t from = 0;
  while (from <= folders.size()) {
    const std::size_t end = std::min(folders.find(':', from), folders.size());
    const std::string file = folders.substr(from, end - from) + "/" + name;
    std::error_code ignored;
    if (end > from && std::filesystem::is_regular_file(file, ignored) &&
        access(file.c_str(), X_OK) == 0) {
      return file;
    }
    from = end + 1;
  }
  return "";
}

Finding program(const std::string& what, const std::string& name, const std::string& gives,
                const std::string& command) {
  const std::string at = program_at(name);
  return {what, !at.empty(), at.empty() ? name + " is not in PATH" : at, gives, command};
}

void add_gpus(std::vector<Finding>& all) {
  const std::string gives = "stepcast gpu-check, run --executor nccl";
  try {
    const runtime::GpuTables tables = runtime::open_gpus();
    all.push_back(
        {"CUDA plugin", true, fmt::format("{}", fmt::join(tables.software, ", ")), gives, ""});
    for (int i = 0; i < tables.gpu->count(); ++i) {
      const runtime::GpuInfo info = tables.gpu->info(i);
      all.push_back({fmt::format("GPU {}", i), true,
                     fmt::format("{}, compute capability {}.{}, {}", info.name, info.major,
                                 info.minor, human_gib(info.memory)),
                     gives, ""});
    }
    const bool nccl = tables.collectives != nullptr;
    all.push_back({"NCCL", nccl, nccl ? "loaded" : tables.no_collectives,
                   "run --executor nccl over several GPUs", "apt install libnccl2"});
  } catch (const runtime::GpuError& none) {
    const std::string why = none.what();
    const bool plugin = why.find("no CUDA plugin") == std::string::npos;
    all.push_back({plugin ? "GPU" : "CUDA plugin", false, why, gives,
                   plugin ? "" : "build stepcast where nvcc and libnccl-dev are installed"});
  }
}

std::vector<Finding> findings() {
  std::vector<Finding> all;
  all.push_back({"stepcast", true, std::string(version()), "", ""});
  all.push_back({"processors", true, fmt::format("{} threads", std::thread::hardware_concurrency()),
                 "run, calibrate, validate: a rank a thread", ""});
  all.push_back({"SimGrid", true, simgrid_version(), "the fluid engine", ""});
  const std::string page_needs = "--report, stepcast serve: a page in the browser";
  const bool page = html_page_available();
  all.push_back({"report page", page, page ? "built in" : "built without npm's packages",
                 page_needs, "apt install nodejs npm, and build stepcast again by ./dev"});
  all.push_back(program("npm", "npm", "building the report page", "apt install npm"));
  all.push_back({"SQLite", true, sqlite_version(), "sweep, results: the database", ""});
  const std::string mpi = runtime::mpi_plugin();
  all.push_back({"MPI plugin", !mpi.empty(),
                 mpi.empty() ? "libstepcast_mpi.so is not beside the program" : mpi,
                 "stepcast launch: a process a rank",
                 "apt install libopenmpi-dev, and build stepcast again"});
  all.push_back(program("mpirun", "mpirun", "stepcast launch", "apt install openmpi-bin"));
  add_gpus(all);
  all.push_back(program("nvidia-smi", "nvidia-smi",
                        "`nvidia-smi topo -m`, which stepcast topo import reads",
                        "install the GPU's driver"));
  all.push_back(program("ip", "ip", "validate/lab/lab.py: hosts out of network namespaces",
                        "apt install iproute2"));
  all.push_back(program("man", "man", "the manual pages", "apt install man-db"));
  return all;
}

std::string to_text(const std::vector<Finding>& all) {
  std::string out;
  int missing = 0;
  for (const Finding& each : all) {
    out += fmt::format("{:<8}{:<14}{}\n", each.found ? "found" : "missing", each.what, each.is);
    if (each.found) continue;
    ++missing;
    out += fmt::format("{:<22}needed by: {}\n", "", each.gives);
    if (!each.bring.empty()) out += fmt::format("{:<22}brought by: {}\n", "", each.bring);
  }
  return out + (missing == 0 ? "nothing is missing\n"
                             : fmt::format("{} missing; forecasts need none of it\n", missing));
}

std::string to_json(const std::vector<Finding>& all) {
  using Json = nlohmann::ordered_json;
  Json list = Json::array();
  for (const Finding& each : all) {
    const auto or_null = [](const std::string& text) { return text.empty() ? Json() : Json(text); };
    list.push_back({{"what", each.what},
                    {"found", each.found},
                    {"is", each.is},
                    {"needed_by", or_null(each.gives)},
                    {"brought_by", each.found ? Json() : or_null(each.bring)}});
  }
  return Json({{"schema", "stepcast.doctor/1"}, {"findings", list}})
             .dump(2, ' ', false, Json::error_handler_t::replace) +
         "\n";
}

Run add(CLI::App& command) {
  auto json = std::make_shared<bool>(false);
  command.add_flag("--json", *json, "print JSON, schema stepcast.doctor/1");
  return [json] {
    const std::vector<Finding> all = findings();
    print(*json ? to_json(all) : to_text(all));
    return 0;
  };
}

}  // namespace

const Command doctor_command{"doctor", "say what is installed, what is missing, what brings it",
                             "  stepcast doctor", add};

}  // namespace stepcast::cli
