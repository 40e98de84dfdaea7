#include "runtime/cuda/environment.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cstring>

#include "base/error.hpp"

namespace stepcast::runtime {
namespace {

constexpr int usual_port = 29500;

struct Launcher {
  const char* name;
  const char* rank;
  const char* ranks;
  const char* local_rank;
  const char* local_ranks;  // may be missing
};
// torchrun's first: it runs inside a Slurm job too.
constexpr Launcher launchers[] = {
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE"},
};

int number(const std::string& name, const char* text, int least, int most) {
  int value = 0;
  const char* end = text + std::strlen(text);
  const auto read = std::from_chars(text, end, value);
  if (read.ec != std::errc() || read.ptr != end || value < least || value > most) {
    throw InputError({.file = "environment", .line = 0, .key = name},
                     fmt::format("'{}' is not accepted; accepted: {} to {}", text, least, most));
  }
  return value;
}

}  // namespace

std::string first_host(const std::string& list) {
  const std::size_t bracket = list.find('[');
  const std::size_t comma = list.find(',');
  if (bracket == std::string::npos || comma < bracket) return list.substr(0, comma);
  const std::size_t end = list.find_first_of(",-]", bracket + 1);
  return list.substr(0, bracket) + list.substr(bracket + 1, end - bracket - 1);
}

std::optional<Job> job_of_environment(const std::function<const char*(const char*)>& get) {
  for (const Launcher& launcher : launchers) {
    const char* rank = get(launcher.rank);
    if (rank == nullptr) continue;
    const auto need = [&](const char* name) {
      const char* value = get(name);
      if (value == nullptr) {
        throw InputError(
            {.file = "environment", .line = 0, .key = name},
            fmt::format("is not set, but {} is: {} sets both", launcher.rank, launcher.name));
      }
      return value;
    };
    constexpr int most = 1 << 20;
    Job job;
    job.launcher = launcher.name;
    job.ranks = number(launcher.ranks, need(launcher.ranks), 1, most);
    job.rank = number(launcher.rank, rank, 0, job.ranks - 1);
    job.local_rank = number(launcher.local_rank, need(launcher.local_rank), 0, most);
    if (const char* local = get(launcher.local_ranks)) {
      job.local_ranks = number(launcher.local_ranks, local, 1, most);
    }
    const char* nodes = get("SLURM_JOB_NODELIST");
    if (const char* address = get("MASTER_ADDR")) {
      job.address = address;
    } else if (launcher.name == std::string("Slurm") && nodes != nullptr) {
      job.address = first_host(nodes);
    } else if (job.ranks > 1) {
      need("MASTER_ADDR");
    }
    const char* port = get("MASTER_PORT");
    job.port = port == nullptr ? usual_port : number("MASTER_PORT", port, 1, 65534);
    if (get("TORCHELASTIC_RUN_ID") != nullptr) ++job.port;
    return job;
  }
  return std::nullopt;
}

}  // namespace stepcast::runtime
