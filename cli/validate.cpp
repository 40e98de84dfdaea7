// stepcast validate: runs a step and forecasts it, side by side.

#include "cli/validate.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "base/error.hpp"
#include "base/toml.hpp"
#include "cli/command.hpp"
#include "cli/processes.hpp"
#include "cli/run_gpu.hpp"
#include "cli/scenario_flags.hpp"
#include "runtime/mpi/open.hpp"
#include "runtime/real_replay.hpp"
#include "sim/report/html_page.hpp"
#include "validate/compare.hpp"
#include "validate/durations.hpp"
#include "validate/sweep.hpp"

namespace stepcast::cli {

namespace {

constexpr int most_ranks = 64;           // threads
constexpr Bytes most_bytes = 8ll << 30;  // of tensors for collectives

struct Options {
  std::string file;
  std::string sweep;
  std::string trace;
  std::string report;
  bool json = false;
  int steps = 7;
  std::uint64_t seed = 1;
  double watchdog = 60;
  std::string executor;           // threads, mpi, nccl; empty: mpi under mpirun
  runtime::Wire* wire = nullptr;  // where this process is one rank of several
  GpuJob* gpus = nullptr;         // --executor nccl
  bool prints() const {
    return gpus != nullptr ? gpus->prints() : wire == nullptr || wire->rank() == 0;
  }
};

// Collectives of every rank have tensors of their largest size, twice.
void check_size(const Scenario& scenario, const Forecast& f, const Options& options) {
  if (options.wire != nullptr) {
    if (options.wire->size() == f.report.gpus) return;
    throw InputError(scenario.where("gpus"),
                     fmt::format("the step has {} ranks and {} processes were started; accepted: "
                                 "as many processes as ranks",
                                 f.report.gpus, options.wire->size()));
  }
  if (f.report.gpus > most_ranks) {
    throw InputError(scenario.where("gpus"),
                     fmt::format("{} ranks are more threads than this machine should run; "
                                 "accepted: at most {}",
                                 f.report.gpus, most_ranks));
  }
  const Bytes bytes = runtime::RealReplay::memory_of(f.schedule);
  if (bytes > most_bytes) {
    throw InputError(scenario.where("model"),
                     fmt::format("its collectives need {:.1f} GB on {} ranks; accepted: at most "
                                 "{:.1f} GB, as of a smaller model",
                                 static_cast<double>(bytes) * 1e-9, f.report.gpus,
                                 static_cast<double>(most_bytes) * 1e-9));
  }
}

struct Validated {
  Forecast forecast;
  Measured measured;
};

// The measured timeline is empty where another process has it.
Validated validate(const Scenario& scenario, const Options& options) {
  if (scenario.params) {
    throw InputError(scenario.where("params"), "a parameter count alone has no schedule to run");
  }
  if (scenario.perturb) {
    throw InputError(scenario.where("perturb"), "is simulated, not run; accepted: without it");
  }
  if (scenario.step && *scenario.step == "first") {
    throw InputError(scenario.where("step"), "the steady step is validated; accepted: without it");
  }
  const bool replays_times = options.gpus == nullptr;  // on CPUs: waits
  Validated v{forecast(scenario, {.search_change = false, .alike = replays_times, .to_run = true}),
              {}};
  refuse_replicas(v.forecast.resolved, "a run");
  if (options.gpus != nullptr) {
    v.measured = options.gpus->replay(v.forecast, options.steps);
    return v;
  }
  check_size(scenario, v.forecast, options);
  const Schedule& schedule = v.forecast.schedule;
  // Processes have scratch memory for what they send; threads need tensors.
  std::unique_ptr<runtime::Work> work;
  if (options.wire != nullptr) {
    work = std::make_unique<runtime::Replay>(schedule, run_durations(v.forecast));
  } else {
    work = std::make_unique<runtime::RealReplay>(schedule, run_durations(v.forecast));
  }
  runtime::ExecuteOptions how;
  how.steps = options.steps;
  how.seed = options.seed;
  how.watchdog = options.watchdog;
  spdlog::info("{}: {} steps on {} ranks", schedule.name, how.steps, v.forecast.report.gpus);
  runtime::Execution ran = execute_here(options.wire, schedule, *work, how);
  v.measured.timeline = std::move(ran.timeline);
  v.measured.peak = std::move(ran.peak);
  v.measured.pools = std::move(ran.pools);
  return v;
}

int sweep(const Scenario& base, const Options& options) {
  if (!options.trace.empty()) {
    throw InputError({.file = "--trace", .line = 0, .key = ""},
                     "shows one step; accepted: without --sweep");
  }
  const Where where{.file = "--sweep", .line = 0, .key = ""};
  const std::vector<SweepPoint> points = sweep_points(base, options.sweep, where);
  Sweep all;
  all.key = options.sweep.substr(0, options.sweep.find('='));
  for (const SweepPoint& point : points) {
    spdlog::info("{} = {}", all.key, point.value);
    const Validated v = validate(point.scenario, options);
    all.values.push_back(point.value);
    if (options.prints()) all.points.push_back(compare(v.forecast, v.measured));
  }
  if (!options.prints()) return 0;
  if (!options.report.empty()) write_report(options.report, "validate-sweep", to_json(all));
  print(options.json ? to_json(all) : to_text(all));
  return 0;
}

int run(const Options& options, const ScenarioFlags& flags) {
  if (options.steps < 3 || options.steps > 10000) {
    throw InputError({.file = "--steps", .line = 0, .key = ""},
                     fmt::format("{} is out of range; accepted: 3 to 10000", options.steps));
  }
  if (!(options.watchdog > 0 && options.watchdog <= 1e6)) {
    throw InputError({.file = "--watchdog", .line = 0, .key = ""},
                     fmt::format("{} is out of range; accepted: more than 0 s, at most 1e6 s",
                                 options.watchdog));
  }
  if (!options.report.empty()) check_report("--report", options.report);
  const Scenario scenario = flags.read(options.file);
  if (!options.sweep.empty()) return sweep(scenario, options);
  const Validated v = validate(scenario, options);
  if (!options.prints()) return 0;
  if (!options.trace.empty()) {
    write_file(options.trace, both_as_trace(v.forecast, v.measured.timeline));
    spdlog::info("trace written to {}", options.trace);
  }
  const Comparison c = compare(v.forecast, v.measured);
  if (!options.report.empty()) write_report(options.report, "validate", to_json(c));
  print(options.json ? to_json(c) : to_text(c));
  return 0;
}

int go(Options options, const ScenarioFlags& flags) {
  const Where where{.file = "--executor", .line = 0, .key = ""};
  const std::string& executor = options.executor;
  check_executor(executor, "run the whole step");
  if (executor == "nccl") {
    const Scenario scenario = flags.read(options.file);
    GpuJob gpus(scenario, options.watchdog);
    options.gpus = &gpus;
    return run(options, flags);
  }
  if (executor == "mpi" && !runtime::under_mpirun()) {
    throw InputError(where, "mpi needs processes; accepted: under stepcast launch");
  }
  if (!runtime::under_mpirun()) return run(options, flags);
  const std::unique_ptr<runtime::Wire> wire = runtime::open_mpi();
  options.wire = wire.get();
  return as_one_rank(*wire, [&]() -> Run { return [&] { return run(options, flags); }; });
}

Run add(CLI::App& command) {
  auto options = std::make_shared<Options>();
  auto flags = std::make_shared<ScenarioFlags>(command);
  command.add_option("scenario", options->file, "scenario file in TOML; flags override it")
      ->option_text("FILE");
  const auto group = [](CLI::Option* option, const char* text, const char* name) {
    option->option_text(text)->group(name);
  };
  group(command.add_option(
            "--sweep", options->sweep,
            "one key varied: bucket_cap_mb=1,5,25 or strategy=ddp,fsdp1:FULL_SHARD,hsdp:2"),
        "KEY=VALUE,...", "Run");
  group(command.add_option("--executor", options->executor,
                           "threads of this process; mpi: one process a rank (default under "
                           "mpirun and stepcast launch); nccl: GPUs"),
        "NAME", "Run");
  group(command.add_option("--steps", options->steps, "steps to run, the first warms up: 7"), "N",
        "Run");
  group(command.add_option("--seed", options->seed, "what the schedule leaves open"), "N", "Run");
  group(command.add_option("--watchdog", options->watchdog,
                           "seconds without progress until a hang is reported: 60"),
        "S", "Run");
  command.add_flag("--json", options->json, "print JSON, schema stepcast.validation/1")
      ->group("Output");
  group(command.add_option("--trace", options->trace,
                           "write forecast and measurement as one Chrome/Perfetto trace"),
        "FILE", "Output");
  group(command.add_option("--report", options->report, "write the comparison as a page of HTML"),
        "FILE", "Output");
  auto published = std::make_shared<ValidatePublished>(command);
  return [options, flags, published] {
    return published->chosen() ? published->run(options->json, options->report)
                               : go(*options, *flags);
  };
}

}  // namespace

const Command validate_command{
    "validate", "run a step here, forecast it, and compare",
    "  stepcast validate --published\n"
    "  stepcast calibrate --quick --ranks 4 --output here.toml\n"
    "  stepcast validate examples/validate/ddp-4-ranks.toml --calibration here.toml\n"
    "  stepcast validate examples/validate/ddp-4-ranks.toml --calibration here.toml \\\n"
    "    --sweep bucket_cap_mb=1,5,25",
    add};

}  // namespace stepcast::cli
