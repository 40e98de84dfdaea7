// stepcast calibrate --executor nccl: what GPUs take, alone and beside collectives.
//
// One process measures all GPUs of its machine; a job of one process a GPU (torchrun, srun, mpirun)
// measures the axes that span machines too. All processes run the same units; rank 0 knows which
// are done already, writes and prints.

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "cli/calibrate.hpp"
#include "cli/run_gpu.hpp"
#include "runtime/cuda/gpu_executor.hpp"
#include "validate/gpu_bench.hpp"

namespace stepcast::cli {

namespace {

constexpr double most_mb = 256;  // of a collective
constexpr int most_ranks = 4096;

Where flag(const char* name) { return {.file = name, .line = 0, .key = ""}; }

int ranks_of(const CalibrateCommandOptions& options, const runtime::GpuExecuteOptions& how,
             int gpus) {
  if (how.job && options.ranks && *options.ranks != how.job->ranks) {
    throw InputError(flag("--ranks"),
                     fmt::format("{} are not the {} processes that {} started; "
                                 "accepted: without it",
                                 *options.ranks, how.job->ranks, how.job->launcher));
  }
  const int most = how.job ? most_ranks : gpus;
  const int ranks = how.job ? how.job->ranks : options.ranks.value_or(gpus);
  if (ranks < 1 || ranks > most) {
    throw InputError(flag("--ranks"),
                     fmt::format("{} is out of range; accepted: 1 to {}", ranks, most));
  }
  return ranks;
}

int ranks_per_node(const CalibrateCommandOptions& options, const runtime::GpuExecuteOptions& how) {
  const bool known = how.job && how.job->local_ranks > 0;
  if (options.ranks_per_node == 0) return known ? how.job->local_ranks : 0;
  if (options.ranks_per_node < 1 || !how.job) {
    throw InputError(flag("--ranks-per-node"),
                     "says how processes lie on hosts; accepted: from 1, under torchrun, srun or "
                     "mpirun");
  }
  return options.ranks_per_node;
}

}  // namespace

int calibrate_on_gpus(const CalibrateCommandOptions& options) {
  if (!(options.watchdog > 0 && options.watchdog <= 1e6)) {
    throw InputError(flag("--watchdog"),
                     fmt::format("{} is out of range; accepted: more than 0 s, at most 1e6 s",
                                 options.watchdog));
  }
  check_sizes(options, 1, 1);
  const runtime::GpuTables tables = open_gpus_for({});
  if (tables.kernels == nullptr) throw InputError(flag("--executor"), tables.no_kernels);
  runtime::GpuExecuteOptions how;
  how.job = runtime::job_of_environment([](const char* name) { return std::getenv(name); });
  how.watchdog = options.watchdog;
  const int ranks = ranks_of(options, how, tables.gpu->count());
  const int shard = options.shard_group == 0 ? ranks : options.shard_group;
  check_sizes(options, ranks, shard);
  const int per_node = ranks_per_node(options, how);
  const double largest = options.largest_mb.value_or(most_mb);

  Measurement m;
  m.how = how_to_measure(options, largest);
  m.prints = !how.job || how.job->rank == 0;
  CalibrationOrigin origin = gpu_origin(tables, options.gpu);
  if (!options.name.empty()) origin.name = options.name;
  origin.source = source_of(options, ranks, shard, largest) + " --executor nccl";
  origin.date = today();
  if (m.prints) check_output(options, origin);
  m.calibration =
      m.prints ? begun(options.output + ".part", origin) : Calibration{origin, {}, {}, {}, {}};
  // All processes leave out the same units: those that rank 0 has.
  m.calibration =
      parse_calibration(runtime::from_rank_0(to_toml(m.calibration), how), "what rank 0 has");
  how.meeting = 1;
  m.bench = gpu_bench(tables, {ranks / shard, shard}, how, per_node);
  return measure(options, m);
}

}  // namespace stepcast::cli
