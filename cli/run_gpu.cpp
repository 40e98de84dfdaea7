#include "cli/run_gpu.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>

#include "cli/command.hpp"
#include "runtime/cuda/gpu_replay.hpp"
#include "runtime/cuda/gpu_trainer.hpp"
#include "sim/collectives/nccl/environment.hpp"
#include "sim/report/format.hpp"
#include "validate/durations.hpp"
#include "validate/gpu_bench.hpp"

namespace stepcast::cli {
namespace {

// Checked when the scenario was resolved.
std::vector<std::pair<std::string, std::string>> nccl_variables(const Scenario& scenario) {
  auto list = nccl::read_variables(scenario.nccl.value_or(""), scenario.where("nccl"));
  for (auto& variable : list) variable.first = nccl::full_name(variable.first);
  return list;
}

int variable(const Scenario& scenario, const std::string& wanted) {
  for (const auto& [name, value] : nccl_variables(scenario)) {
    if (name == wanted) return std::atoi(value.c_str());
  }
  return -1;
}

// One process prints: that of rank 0.
bool prints_here(const runtime::GpuExecuteOptions& how) { return !how.job || how.job->rank == 0; }

int replay(const RunCommandOptions& options, const Scenario& scenario, Forecast& f) {
  const runtime::GpuTables tables = open_gpus_for(scenario);
  if (tables.kernels == nullptr) {
    throw InputError({.file = "--executor", .line = 0, .key = ""}, tables.no_kernels);
  }
  runtime::GpuExecuteOptions how = gpu_options(options, scenario);
  how.steps = f.resolved.first_step ? 1 : options.steps.value_or(5);
  runtime::GpuReplay work(f.schedule, durations_of(f.schedule, f.costs), tables);
  const runtime::GpuExecution run = runtime::execute_on_gpus(f.schedule, work, tables, how);
  if (!prints_here(how)) return 0;
  write_timeline(options, f, run.timeline);
  const Collectives collectives(f.resolved.cluster, f.resolved.step.mesh, f.resolved.collectives);
  Report report = report_of(f.resolved, f.schedule, f.costs, run.timeline, collectives);
  report.memory = f.report.memory;
  report.fits = f.report.fits;
  report.notes.push_back(fmt::format(
      "run on {} ({}): kernels of the true shapes on random data, lanes take the forecast's host "
      "time; the forecast of the step is {}",
      run.gpus.front() +
          (run.gpus.size() > 1 ? fmt::format(" and {} more", run.gpus.size() - 1) : ""),
      fmt::join(tables.software, ", "), human_seconds(f.report.step_time)));
  report.notes.push_back(fmt::format("kernels: {}", fmt::join(work.labels(), "; ")));
  report.notes.push_back(
      fmt::format("memory really allocated on rank 0: {} at once, {} reserved by its pools",
                  human_bytes(static_cast<double>(run.memory.front().peak)),
                  human_bytes(static_cast<double>(run.memory.front().reserved))));
  print(options.json ? to_json(report) : to_text(report, {.unicode = isatty(STDOUT_FILENO) == 1}));
  return 0;
}

int train(const RunCommandOptions& options, const Scenario& scenario, const Forecast& f) {
  const TrainSetup setup = train_setup(options, scenario, f);
  const runtime::GpuTables tables = open_gpus_for(scenario);
  if (tables.math == nullptr) {
    throw InputError({.file = "--executor", .line = 0, .key = ""}, tables.no_math);
  }
  std::unique_ptr<runtime::GpuTrainer> work;
  try {
    work = std::make_unique<runtime::GpuTrainer>(setup.schedule, setup.shape, setup.data, tables);
  } catch (const std::runtime_error& unknown) {
    throw cannot_train(unknown);
  }
  const runtime::Trained one_rank = setup.one_rank();
  work->compare_with(one_rank.parameters, setup.shares);
  runtime::GpuExecuteOptions how = gpu_options(options, scenario);
  how.steps = work->executed_steps();
  const runtime::GpuExecution run = runtime::execute_on_gpus(setup.schedule, *work, tables, how);
  if (!prints_here(how)) return 0;
  write_timeline(options, f, run.timeline);
  const auto verdict = work->verdict(run);
  return print_trained(options, f, verdict.losses, one_rank.losses, verdict.difference);
}

}  // namespace

runtime::GpuTables open_gpus_for(const Scenario& scenario) {
  try {
    return runtime::open_gpus({nccl_variables(scenario)});
  } catch (const runtime::GpuError& none) {
    throw InputError({.file = "--executor", .line = 0, .key = ""},
                     fmt::format("nccl: {}; accepted: threads, mpi", none.what()));
  }
}

runtime::CommOptions comm_options(const Scenario& scenario) {
  runtime::CommOptions comm;
  comm.min_ctas = variable(scenario, "NCCL_MIN_CTAS");
  comm.max_ctas = variable(scenario, "NCCL_MAX_CTAS");
  return comm;
}

runtime::GpuExecuteOptions gpu_options(const RunCommandOptions& options, const Scenario& scenario) {
  runtime::GpuExecuteOptions how;
  how.job = runtime::job_of_environment([](const char* name) { return std::getenv(name); });
  how.watchdog = options.watchdog;
  how.comm = comm_options(scenario);
  return how;
}

GpuJob::GpuJob(const Scenario& scenario, Seconds watchdog) : tables_(open_gpus_for(scenario)) {
  if (tables_.kernels == nullptr) {
    throw InputError({.file = "--executor", .line = 0, .key = ""}, tables_.no_kernels);
  }
  RunCommandOptions options;
  options.watchdog = watchdog;
  how_ = gpu_options(options, scenario);
}

Measured GpuJob::replay(const Forecast& forecast, int steps) {
  how_.steps = steps;
  runtime::GpuReplay work(forecast.schedule, durations_of(forecast.schedule, forecast.costs),
                          tables_);
  const runtime::GpuExecution run =
      runtime::execute_on_gpus(forecast.schedule, work, tables_, how_);
  ++how_.meeting;
  labels_ = work.labels();
  return measured_of(run);
}

int run_on_gpus(const RunCommandOptions& options, const Scenario& scenario, Forecast& f) {
  return options.compute == "train" ? train(options, scenario, f) : replay(options, scenario, f);
}

}  // namespace stepcast::cli
