#pragma once
// stepcast run --executor nccl: the step on GPUs, by CUDA and NCCL.

#include "cli/run.hpp"
#include "runtime/cuda/gpu_executor.hpp"

namespace stepcast::cli {

// The plugin, with the scenario's NCCL variables (--nccl); what has no GPU is an InputError.
runtime::GpuTables open_gpus_for(const Scenario& scenario);
// CTAs of the scenario's NCCL variables.
runtime::CommOptions comm_options(const Scenario& scenario);
runtime::GpuExecuteOptions gpu_options(const RunCommandOptions& options, const Scenario& scenario);

int run_on_gpus(const RunCommandOptions& options, const Scenario& scenario, Forecast& forecast);

}  // namespace stepcast::cli
