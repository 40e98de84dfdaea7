#pragma once
// The two computes of `stepcast run`.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "runtime/cpu/executor.hpp"
#include "runtime/train/reference.hpp"
#include "runtime/train/trainer.hpp"
#include "sim/forecast/forecast.hpp"

namespace stepcast::cli {

struct RunCommandOptions {
  std::string file;
  std::string compute = "replay";
  std::string trace;
  std::string picture;
  bool json = false;
  bool float64 = false;
  std::optional<int> steps;       // 3 of replay, 5 of train
  std::optional<double> stretch;  // so that a step takes about a second
  double watchdog = 30;
  std::uint64_t seed = 1;
  std::string executor;           // threads, mpi, nccl; empty: mpi under mpirun
  runtime::Wire* wire = nullptr;  // where this process is one rank of several
};

// Whether this process prints: the only one, or rank 0.
bool prints(const RunCommandOptions& options);

// What is trained, and what it is compared with.
struct TrainSetup {
  runtime::MlpShape shape;
  runtime::TrainingData data;
  std::vector<runtime::RankShare> shares;
  runtime::UpdateRule rule = runtime::UpdateRule::adamw;
  Schedule schedule;
  runtime::Trained one_rank() const;
};
// Throws InputError where the scenario cannot be trained.
TrainSetup train_setup(const RunCommandOptions& options, const Scenario& scenario,
                       const Forecast& forecast);
InputError cannot_train(const std::runtime_error& unknown);
// The page or JSON. Throws where --float64 has not proven equality.
int print_trained(const RunCommandOptions& options, const Forecast& forecast,
                  const std::vector<double>& losses, const std::vector<double>& one_rank_losses,
                  double difference);

// Trains the scenario's model with real numbers and compares it with one rank.
int run_train(const RunCommandOptions& options, const Scenario& scenario, const Forecast& forecast);

// Trace and picture, where they were asked for.
void write_timeline(const RunCommandOptions& options, const Forecast& forecast,
                    const Timeline& timeline);

}  // namespace stepcast::cli
