#pragma once
// The plugin libstepcast_cuda.so: found, opened, asked for its tables.
//
// It is the file or lies in the folder that $STEPCAST_CUDA_PLUGIN names; else it lies in
// lib/stepcast beside the program's bin. The program itself is linked to nothing of CUDA. Tested by
// tests/unit/cuda/plugin_test.cpp.

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/cuda/gpu.hpp"
#include "runtime/cuda/kernels.hpp"
#include "runtime/cuda/math.hpp"

namespace stepcast::runtime {

// What is decided before the libraries are opened: NCCL reads its environment once. Algorithm and
// protocol have no other way in (NCCL_ALGO, NCCL_PROTO).
struct PluginOptions {
  std::vector<std::pair<std::string, std::string>> environment;  // of the scenario, by name
};

// The tables. A table that is not there says why; Gpu always is.
struct GpuTables {
  Gpu* gpu = nullptr;
  GpuCollectives* collectives = nullptr;
  GpuMath* math = nullptr;
  GpuKernels* kernels = nullptr;
  std::string no_collectives, no_math, no_kernels;
  std::vector<std::string> software;  // "driver 580.82 (CUDA 13.0)", "NCCL 2.28.9", ...
  std::shared_ptr<void> keeps;        // what the tables live in
};

// Throws GpuError where there is no plugin, no driver or no GPU; one line that says which.
GpuTables open_gpus(const PluginOptions& options = {});

// ---- Between program and plugin -----------------------------------------------------------------
// `abi` must be the plugin's own: both are built from one tree.
inline constexpr int plugin_abi = 1;
using OpenTables = GpuTables* (*)(int abi, const PluginOptions* options, std::string* why);
inline constexpr const char* open_tables_symbol = "stepcast_open_gpu_tables";

}  // namespace stepcast::runtime
