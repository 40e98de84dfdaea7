#pragma once
// The two computes of `stepcast run`.

#include <cstdint>
#include <string>

#include "runtime/cpu/executor.hpp"
#include "sim/forecast/forecast.hpp"

namespace stepcast::cli {

struct RunCommandOptions {
  std::string file;
  std::string compute = "replay";
  std::string trace;
  std::string picture;
  bool json = false;
  bool float64 = false;
  int steps = 0;       // 0: 3 of replay, 5 of train
  double stretch = 0;  // 0: so that a step takes about a second
  double watchdog = 30;
  std::uint64_t seed = 1;
  std::string executor;           // threads, mpi; empty: mpi under mpirun
  runtime::Wire* wire = nullptr;  // where this process is one rank of several
};

// Whether this process prints: the only one, or rank 0.
bool prints(const RunCommandOptions& options);

// Trains the scenario's model with real numbers and compares it with one rank.
int run_train(const RunCommandOptions& options, const Scenario& scenario, const Forecast& forecast);

// Trace and picture, where they were asked for.
void write_timeline(const RunCommandOptions& options, const Forecast& forecast,
                    const Timeline& timeline);

}  // namespace stepcast::cli
