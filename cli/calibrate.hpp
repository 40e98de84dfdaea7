#pragma once
// What the commands that calibrate share: `stepcast calibrate` on CPUs (calibrate.cpp) and on GPUs
// (calibrate_gpu.cpp).

#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "validate/calibrate.hpp"

namespace stepcast::cli {

struct CalibrateCommandOptions {
  std::vector<std::string> traces;
  std::string output = "calibration.toml";
  std::string name;
  std::string gpu;
  std::string executor;      // threads, mpi, nccl; empty: mpi under mpirun
  std::optional<int> ranks;  // threads: 4; nccl: all GPUs
  int ranks_per_node = 0;
  int shard_group = 0;
  int gpus_per_node = 0;
  std::optional<double> largest_mb;  // 64; nccl: 256
  std::vector<double> sizes_mb;
  std::vector<std::string> dtypes;
  bool quick = false;
  double watchdog = 60;  // nccl
};

// What a measurement consists of, and what of it is done.
struct Measurement {
  Bench bench;
  CalibrateOptions how;
  Calibration calibration;
  bool prints = true;
};

std::string today();  // "2026-11-30", UTC

// Sizes and groups, where ranks are 1 or more; at most `most` ranks, at least `least`.
void check_sizes(const CalibrateCommandOptions& options, int ranks, int shard);
// Sizes and dtypes of collectives as they were asked for.
CalibrateOptions how_to_measure(const CalibrateCommandOptions& options, double largest_mb);
// "stepcast 0.1.0 calibrate --quick ...": equal commands go on where one was interrupted.
std::string source_of(const CalibrateCommandOptions& options, int ranks, int shard,
                      double largest_mb);
// Before minutes of measuring: what cannot be written, or not be read again.
void check_output(const CalibrateCommandOptions& options, const CalibrationOrigin& origin);
// What an interrupted measurement of the same kind left.
Calibration begun(const std::string& part, const CalibrationOrigin& origin);
// Measures what is left and writes the output.
int measure(const CalibrateCommandOptions& options, Measurement& m);

// --executor nccl.
int calibrate_on_gpus(const CalibrateCommandOptions& options);

}  // namespace stepcast::cli
