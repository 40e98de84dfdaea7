// stepcast run: runs a training step on CPU threads of this machine, or on processes of several, as
// its schedule says.

#include "cli/run.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "base/error.hpp"
#include "base/toml.hpp"
#include "cli/command.hpp"
#include "cli/processes.hpp"
#include "cli/run_gpu.hpp"
#include "cli/scenario_flags.hpp"
#include "cli/step_trace.hpp"
#include "runtime/cpu/executor.hpp"
#include "runtime/mpi/open.hpp"
#include "runtime/replay.hpp"
#include "sim/report/format.hpp"
#include "sim/report/picture.hpp"
#include "validate/durations.hpp"

namespace stepcast::cli {

void write_timeline(const RunCommandOptions& options, const Forecast& f, const Timeline& timeline) {
  if (!options.trace.empty()) {
    write_file(options.trace, to_trace(f.schedule, f.costs, timeline, trace_options(f)));
    spdlog::info("trace written to {}", options.trace);
  }
  if (options.picture.empty()) return;
  PictureOptions picture;
  picture.title = fmt::format("{} on {} CPU threads", f.schedule.name, f.report.gpus);
  picture.capacity = f.report.capacity;
  write_file(options.picture, to_picture(f.schedule, timeline, picture));
  spdlog::info("picture written to {}", options.picture);
}

bool prints(const RunCommandOptions& options) {
  return options.wire == nullptr || options.wire->rank() == 0;
}

namespace {

constexpr int most_ranks = 256;       // threads
constexpr double step_seconds = 1.0;  // what a step is stretched to, where nobody says
constexpr double most_stretch = 1000;

// What the run allocated, beside the forecast, and each pool at its own peak.
std::string memory_note(const Forecast& f, const runtime::Execution& run) {
  const auto size = [](Bytes bytes) { return human_bytes(static_cast<double>(bytes)); };
  Bytes forecast = 0;
  for (const MemorySample& sample : f.timeline.memory) {
    if (sample.role == 0) forecast = std::max(forecast, sample.allocated);
  }
  std::string text = fmt::format("tensors allocated at once on rank 0: {}, forecast {}",
                                 size(run.peak.front()), size(forecast));
  std::string pools;
  for (std::size_t s = 0; s < run.pools.size() && s < f.schedule.streams.size(); ++s) {
    if (run.pools[s] == 0) continue;
    pools += fmt::format("{}{} {}", pools.empty() ? "" : ", ", f.schedule.streams[s].name.str(),
                         size(run.pools[s]));
  }
  return pools.empty() ? text : text + "; of it at most, by the pool of each stream: " + pools;
}

int run_replay(const RunCommandOptions& options, Forecast& f) {
  const Seconds forecast_step = f.report.step_time;
  const double stretch = options.stretch || options.wire != nullptr
                             ? options.stretch.value_or(1.0)
                             : std::clamp(step_seconds / forecast_step, 1.0, most_stretch);
  const bool processes = options.wire != nullptr;
  runtime::ExecuteOptions how;
  how.steps = f.resolved.first_step ? 1 : options.steps.value_or(3);
  how.seed = options.seed;
  how.watchdog = options.watchdog;
  runtime::Replay work(f.schedule, run_durations(f), stretch);
  spdlog::info("{} ranks, {} steps, everything {:.3g} times as long", f.report.gpus, how.steps,
               stretch);
  runtime::Execution execution = execute_here(options.wire, f.schedule, work, how);
  if (!prints(options)) return 0;
  const std::string memory = memory_note(f, execution);
  const Timeline timeline = runtime::scaled(std::move(execution.timeline), 1 / stretch);

  write_timeline(options, f, timeline);
  const Collectives collectives(f.resolved.cluster, f.resolved.step.mesh, f.resolved.collectives);
  Report report = report_of(f.resolved, f.schedule, f.costs, timeline, collectives);
  report.memory =
      f.report.memory;  // what the allocator reserves is replayed on the forecast's clock
  report.fits = f.report.fits;
  const std::string how_run =
      processes ? fmt::format(
                      "run on {} ({}): compute took its forecast time, collectives the time "
                      "that their bytes took",
                      fmt::format("{} processes", report.gpus), options.wire->name())
                : fmt::format(
                      "run on {} threads of this machine: each op took its forecast time "
                      "alone, {:.3g} times as long (divided out)",
                      report.gpus, stretch);
  report.notes.push_back(
      fmt::format("{}; the forecast of the step is {}", how_run, human_seconds(forecast_step)));
  report.notes.push_back(memory);
  print(options.json ? to_json(report) : to_text(report, {.unicode = isatty(STDOUT_FILENO) == 1}));
  return 0;
}

bool on_processes(const RunCommandOptions& options) {
  if (options.executor.empty()) return runtime::under_mpirun();
  check_executor(options.executor, "run the whole step");
  return options.executor == "mpi";
}

void check(const RunCommandOptions& options) {
  const auto refuse = [](const char* flag, const std::string& message) {
    throw InputError({.file = flag, .line = 0, .key = ""}, message);
  };
  if (options.compute != "replay" && options.compute != "train") {
    throw not_accepted({.file = "--compute", .line = 0, .key = ""}, options.compute,
                       {"replay", "train"});
  }
  if (options.steps && (*options.steps < 1 || *options.steps > 10000)) {
    refuse("--steps", fmt::format("{} is out of range; accepted: 1 to 10000", *options.steps));
  }
  if (options.stretch && !(*options.stretch >= 1 && *options.stretch <= 1e6)) {
    refuse("--stretch", fmt::format("{} is out of range; accepted: 1 to 1e6", *options.stretch));
  }
  if (!(options.watchdog > 0 && options.watchdog <= 1e6)) {
    refuse("--watchdog", fmt::format("{} is out of range; accepted: more than 0 s, at most 1e6 s",
                                     options.watchdog));
  }
  if (options.float64 && options.compute != "train") {
    refuse("--float64", "needs --compute train: replay has no numbers");
  }
  if (options.stretch && options.compute == "train") {
    refuse("--stretch", "needs --compute replay: train takes the time that it takes");
  }
  if (options.stretch.value_or(1) > 1 && (on_processes(options) || options.executor == "nccl")) {
    refuse("--stretch", "needs --executor threads: bytes between processes cannot be stretched");
  }
}

// Everything that can be wrong with the input is found here; the Run that is returned runs.
Run prepare(const RunCommandOptions& options, const ScenarioFlags& flags) {
  check(options);
  const Scenario scenario = flags.read(options.file);
  if (scenario.params) {
    throw InputError(scenario.where("params"), "a parameter count alone has no schedule to run");
  }
  if (scenario.perturb) {
    throw InputError(scenario.where("perturb"),
                     "is simulated, not run; accepted: stepcast simulate, or a run without it");
  }
  auto f = std::make_shared<Forecast>(forecast(scenario, {.search_change = false, .to_run = true}));
  refuse_replicas(f->resolved, "a run");
  if (options.executor == "nccl")
    return [options, scenario, f] { return run_on_gpus(options, scenario, *f); };
  const std::int64_t ranks = f->report.gpus;
  if (options.wire != nullptr && options.wire->size() != ranks) {
    throw InputError(
        scenario.where("gpus"),
        fmt::format("the step has {} ranks and {} processes were started; accepted: as many "
                    "processes as ranks",
                    ranks, options.wire->size()));
  }
  if (ranks > most_ranks) {
    throw InputError(scenario.where("gpus"),
                     fmt::format("{} ranks are more threads than one process should have; "
                                 "accepted: at most {}",
                                 ranks, most_ranks));
  }
  if (options.compute == "train") {
    return [options, scenario, f] { return run_train(options, scenario, *f); };
  }
  return [options, f] { return run_replay(options, *f); };
}

int go(RunCommandOptions options, const ScenarioFlags& flags) {
  if (!on_processes(options)) return prepare(options, flags)();
  const std::unique_ptr<runtime::Wire> wire = runtime::open_mpi();
  options.wire = wire.get();
  return as_one_rank(*wire, [&] { return prepare(options, flags); });
}

Run add(CLI::App& command) {
  auto options = std::make_shared<RunCommandOptions>();
  auto flags = std::make_shared<ScenarioFlags>(command);
  command.add_option("scenario", options->file, "scenario file in TOML; flags override it")
      ->option_text("FILE");
  const auto group = [](CLI::Option* option, const char* text) {
    option->option_text(text)->group("Run");
  };
  group(command.add_option("--compute", options->compute,
                           "replay: ops take their forecast time (default); train: real numbers, "
                           "compared with one rank (model residual-mlp)"),
        "NAME");
  group(command.add_option("--executor", options->executor,
                           "threads of this process; mpi: one process a rank (default under "
                           "mpirun and stepcast launch); nccl: GPUs"),
        "NAME");
  group(command.add_option("--steps", options->steps, "steps to run: 3, of train 5"), "N");
  group(command.add_option("--stretch", options->stretch,
                           "replay everything so many times as long, and divide again (default: a "
                           "step takes about a second)"),
        "N");
  command.add_flag("--float64", options->float64, "train an fp32 schedule in float64: the proof")
      ->group("Run");
  group(command.add_option("--seed", options->seed, "what the schedule leaves open"), "N");
  group(command.add_option("--watchdog", options->watchdog,
                           "seconds without progress until a hang is reported: 30"),
        "S");
  command.add_flag("--json", options->json, "print JSON")->group("Output");
  group(command.add_option("--trace", options->trace, "write a Chrome/Perfetto trace"), "FILE");
  group(command.add_option("--picture", options->picture, "draw the last step as SVG"), "FILE");
  return [options, flags] { return go(*options, *flags); };
}

}  // namespace

const Command run_command{
    "run", "run a training step on CPU threads of this machine, or on processes",
    "  stepcast run --model gpt2 --cluster dgx-h100 --gpus 8 --strategy fsdp2 --trace run.json\n"
    "  stepcast run --model residual-mlp --cluster dgx-h100 --gpus 4 --strategy zero3 \\\n"
    "    --precision fp32 --compute train --float64",
    add};

}  // namespace stepcast::cli
