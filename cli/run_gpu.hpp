#pragma once
// stepcast run --executor nccl: the step on GPUs, by CUDA and NCCL.

#include "cli/run.hpp"
#include "runtime/cuda/gpu_executor.hpp"
#include "validate/compare.hpp"

namespace stepcast::cli {

// The plugin, with the scenario's NCCL variables (--nccl); what has no GPU is an InputError.
runtime::GpuTables open_gpus_for(const Scenario& scenario);
// CTAs of the scenario's NCCL variables.
runtime::CommOptions comm_options(const Scenario& scenario);
runtime::GpuExecuteOptions gpu_options(const RunCommandOptions& options, const Scenario& scenario);

// Replays of forecasts' schedules, one after the other, by one job: what `stepcast validate` holds
// against them.
class GpuJob {
 public:
  // Throws InputError where there is no GPU, or nothing that runs kernels.
  GpuJob(const Scenario& scenario, Seconds watchdog);
  bool prints() const { return !how_.job || how_.job->rank == 0; }
  Measured replay(const Forecast& forecast, int steps);
  // What ran for each kind of kernel in the last replay.
  const std::vector<std::string>& labels() const { return labels_; }

 private:
  runtime::GpuTables tables_;
  runtime::GpuExecuteOptions how_;
  std::vector<std::string> labels_;
};

int run_on_gpus(const RunCommandOptions& options, const Scenario& scenario, Forecast& forecast);

}  // namespace stepcast::cli
