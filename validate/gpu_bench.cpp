#include "validate/gpu_bench.hpp"

#include <memory>

#include "runtime/cuda/gpu_replay.hpp"
#include "sim/calibration/known_gpu.hpp"

namespace stepcast {

namespace {

// Channels that a collective is given: interference is a function of how many it holds.
const std::vector<int> several_ctas{1, 2, 4, 8, 16, 32};

}  // namespace

Bench gpu_bench(const runtime::GpuTables& tables, Mesh mesh, const runtime::GpuExecuteOptions& how,
                int ranks_per_node) {
  const auto next = std::make_shared<int>(how.meeting);
  const auto run = [tables, how, next](const Schedule& schedule, int steps, int ctas) {
    runtime::GpuExecuteOptions here = how;
    here.steps = steps;
    here.meeting = (*next)++;
    if (ctas > 0) here.comm.min_ctas = here.comm.max_ctas = ctas;
    // Lanes take no time: what is timed is on streams.
    runtime::GpuReplay work(schedule, runtime::timed(schedule, 0), tables);
    return runtime::execute_on_gpus(schedule, work, tables, here).timeline;
  };
  Bench bench;
  bench.mesh = mesh;
  bench.ranks_per_node = ranks_per_node;
  bench.source = tables.gpu->info(0).name;
  bench.computes = true;
  bench.run = [run](const Schedule& schedule, int steps, Seconds) {
    return run(schedule, steps, 0);
  };
  bench.run_with = run;
  bench.ctas = several_ctas;
  bench.beside = 64 * mib;  // some 300 us on NVLink, beside products of 200
  return bench;
}

CalibrationOrigin gpu_origin(const runtime::GpuTables& tables, const std::string& gpu) {
  const runtime::GpuInfo info = tables.gpu->info(0);
  CalibrationOrigin origin;
  origin.name = info.name;
  origin.device = info.name;
  origin.gpu =
      gpu.empty()
          ? known_gpu({info.name, info.memory, info.major * 10 + info.minor, info.multiprocessors})
          : gpu;
  origin.driver = tables.software.empty() ? "" : tables.software.front();
  origin.executor = "cuda";
  origin.versions = tables.software;
  return origin;
}

Measured measured_of(const runtime::GpuExecution& run) {
  Measured measured;
  measured.timeline = run.timeline;
  for (const runtime::GpuMemoryUse& use : run.memory) measured.peak.push_back(use.peak);
  measured.pools = run.memory.front().pools;
  return measured;
}

}  // namespace stepcast
