#pragma once
// Measuring on GPUs: benches, and a run as compare() takes it.
//
// Benches are what `stepcast calibrate --executor nccl` and gpu-check measure with. Each run of a
// bench is a run of the GPU executor, so its communicators are made anew, for some benches with a
// number of channels of their own.
//
//   Bench bench = gpu_bench(tables, {2, 8}, {.job = *job_of_environment(...)}, 8);
//   calibrate(c, bench, {}, before, keep);
//
// In a job of several processes all of them run all benches and have the timelines.
// Tested by tests/unit/validate/gpu_bench_test.cpp, on GPUs that are not there.

#include "runtime/cuda/gpu_executor.hpp"
#include "sim/calibration/calibration.hpp"
#include "validate/calibrate.hpp"
#include "validate/compare.hpp"

namespace stepcast {

// The tables must hold kernels, and collectives where the mesh has more than one rank. Every run
// counts one more meeting of the job from `how.meeting` on.
Bench gpu_bench(const runtime::GpuTables& tables, Mesh mesh, const runtime::GpuExecuteOptions& how,
                int ranks_per_node);

// Name, device, driver, versions, and the catalog's name of the GPU where `gpu` gives none. The
// source is the caller's.
CalibrationOrigin gpu_origin(const runtime::GpuTables& tables, const std::string& gpu);

Measured measured_of(const runtime::GpuExecution& run);

}  // namespace stepcast
