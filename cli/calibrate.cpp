// stepcast calibrate: measures this machine, or reads a trace of somebody's own training.

#include "cli/calibrate.hpp"

#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <thread>

#include "base/error.hpp"
#include "base/toml.hpp"
#include "base/version.hpp"
#include "cli/command.hpp"
#include "cli/processes.hpp"
#include "runtime/cpu/executor.hpp"
#include "runtime/mpi/open.hpp"
#include "runtime/real_replay.hpp"
#include "sim/calibration/from_trace.hpp"
#include "sim/report/format.hpp"

namespace stepcast::cli {

namespace {

using Options = CalibrateCommandOptions;

constexpr double most_mb = 64;  // of a collective on CPUs

Where flag(const char* name) { return {.file = name, .line = 0, .key = ""}; }

// "AMD EPYC 7742 64-Core Processor"
std::string cpu_name() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "CPU";
}

// ---- From traces

int from_traces(const Options& options) {
  TraceCalibration t = calibration_of_traces(options.traces, {options.gpu, options.gpus_per_node});
  Calibration& c = t.calibration;
  if (!options.name.empty()) c.origin.name = options.name;
  std::error_code unknown;
  c.origin.date = today();
  write_file(options.output, to_toml(c));
  std::string text = fmt::format("{}, {} trace{}, {} kernels and {} collectives\n", c.origin.device,
                                 t.ranks, t.ranks == 1 ? "" : "s", t.kernels, t.collectives);
  text += fmt::format("{}: {}\n", options.output, summary(c));
  if (t.kernel_us > 0) {
    text += fmt::format("covered: {:.0f} % of the kernels' time, {} of {} collectives\n",
                        100 * t.covered_us / t.kernel_us, t.covered_collectives, t.collectives);
  }
  if (!t.left_out.empty()) {
    text += fmt::format("left out: {}\n", fmt::join(t.left_out, ", "));
  }
  if (t.ranks == 1 && t.covered_collectives > 0) {
    text +=
        "collectives: the shortest call of each size, since one rank does not tell how long it "
        "waited for others; give the traces of several ranks\n";
  }
  print(text);
  return 0;
}

// ---- Measured here

// One line that moves on a terminal, else a line a unit.
class Progress {
 public:
  explicit Progress(std::size_t units) : units_(units), moves_(isatty(STDERR_FILENO) == 1) {}
  void operator()(std::size_t unit, const std::string& name) {
    std::fprintf(stderr, moves_ ? "\r\x1b[K[%zu/%zu] %s" : "[%zu/%zu] %s\n", unit + 1, units_,
                 name.c_str());
    std::fflush(stderr);
  }
  void end() const {
    if (moves_) std::fprintf(stderr, "\r\x1b[K");
  }

 private:
  std::size_t units_;
  bool moves_;
};

constexpr Dtype summed[] = {Dtype::fp32, Dtype::bf16, Dtype::fp16};

// Ranks are threads, or processes where there is a wire.
void check(const Options& options, int ranks, int shard, bool processes) {
  if (ranks < 2 || ranks > 64) {
    throw InputError(flag(processes ? "launch -n" : "--ranks"),
                     fmt::format("{} is out of range; accepted: 2 to 64 ranks", ranks));
  }
  if (processes && options.ranks && *options.ranks != ranks) {
    throw InputError(flag("--ranks"), fmt::format("{} are not the {} processes that were started; "
                                                  "accepted: without it",
                                                  *options.ranks, ranks));
  }
  if (options.ranks_per_node < 0 || (options.ranks_per_node > 0 && !processes)) {
    throw InputError(flag("--ranks-per-node"),
                     "says how processes lie on hosts; accepted: from 1, under stepcast launch");
  }
  check_sizes(options, ranks, shard);
}

}  // namespace

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[16];
  std::strftime(text, sizeof text, "%Y-%m-%d", &parts);
  return text;
}

// What an interrupted measurement of the same kind left.
Calibration begun(const std::string& part, const CalibrationOrigin& origin) {
  std::error_code error;
  if (!std::filesystem::exists(part, error)) return {origin, {}, {}, {}, {}};
  Calibration c = read_calibration(part);
  const CalibrationOrigin& o = c.origin;
  const bool same = o.name == origin.name && o.device == origin.device &&
                    o.executor == origin.executor && o.source == origin.source &&
                    o.versions == origin.versions;
  if (!same) {
    throw InputError(
        {part, 0, "machine"},
        fmt::format("was begun as \"{}\", which this is not (\"{}\"); accepted: remove "
                    "it, or another --output",
                    o.source, origin.source));
  }
  return c;
}

void check_sizes(const Options& options, int ranks, int shard) {
  double before = 0;
  for (const double size : options.sizes_mb) {
    if (size > 4096) {
      throw InputError(
          flag("--sizes-mb"),
          fmt::format("{} is out of range; accepted: rising MiB, from 0.00001 to 4096", size));
    }
    if (!(size > before && size >= 1e-5 && size <= 4096)) {
      throw InputError(flag("--sizes-mb"), fmt::format("{} after {} is not accepted; accepted: "
                                                       "rising MiB, from 0.00001 to 4096",
                                                       size, before));
    }
    before = size;
  }
  if (shard < 1 || ranks % shard != 0) {
    throw InputError(flag("--shard-group"),
                     fmt::format("{} does not divide {} ranks; accepted: a divisor", shard, ranks));
  }
  const double largest = options.largest_mb.value_or(most_mb);
  if (!(largest >= 0.001 && largest <= 4096)) {
    throw InputError(flag("--largest-mb"),
                     fmt::format("{} is out of range; accepted: 0.001 to 4096 MiB", largest));
  }
}

CalibrateOptions how_to_measure(const Options& options, double largest_mb) {
  CalibrateOptions how;
  how.quick = options.quick;
  how.largest = static_cast<Bytes>(largest_mb * static_cast<double>(mib));
  for (const double size : options.sizes_mb) {
    how.sizes.push_back(static_cast<Bytes>(size * static_cast<double>(mib)));
  }
  if (!options.dtypes.empty()) how.dtypes.clear();
  for (const std::string& name : options.dtypes) {
    const auto known = std::find_if(std::begin(summed), std::end(summed),
                                    [&](Dtype dtype) { return to_string(dtype) == name; });
    if (known == std::end(summed)) {
      throw not_accepted(flag("--dtypes"), name, {"fp32", "bf16", "fp16"});
    }
    how.dtypes.push_back(*known);
  }
  return how;
}

std::string source_of(const Options& options, int ranks, int shard, double largest_mb) {
  std::string source =
      fmt::format("stepcast {} calibrate{} --ranks {} --shard-group {} --largest-mb {}", version(),
                  options.quick ? " --quick" : "", ranks, shard, largest_mb);
  if (!options.sizes_mb.empty()) {
    source += fmt::format(" --sizes-mb {}", fmt::join(options.sizes_mb, ","));
  }
  if (!options.dtypes.empty())
    source += fmt::format(" --dtypes {}", fmt::join(options.dtypes, ","));
  if (options.ranks_per_node > 0) {
    source += fmt::format(" --ranks-per-node {}", options.ranks_per_node);
  }
  return source;
}

void check_output(const Options& options, const CalibrationOrigin& origin) {
  namespace fs = std::filesystem;
  const auto refuse = [&](const char* why) {
    throw InputError(flag("--output"),
                     fmt::format("'{}' {}; accepted: a file to write", options.output, why));
  };
  std::error_code error;
  const fs::path path(options.output);
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  if (path.filename().empty()) refuse("is no file's name");
  if (fs::exists(path, error) && !fs::is_regular_file(path, error)) refuse("is not a file");
  if (!fs::is_directory(folder, error)) refuse("lies in a folder that is not there");
  if (access(folder.c_str(), W_OK) != 0) refuse("lies in a folder that cannot be written");
  try {
    parse_calibration(to_toml({origin, {}, {}, {}, {}}), "--name");
  } catch (const InputError&) {
    throw InputError(flag("--name"), "cannot be written in TOML; accepted: text in UTF-8");
  }
}

int measure(const Options& options, Measurement& m) {
  const std::string part = options.output + ".part";
  const std::vector<CalibrateUnit> units = calibrate_units(m.calibration, m.bench, m.how);
  const auto left =
      std::count_if(units.begin(), units.end(), [](const auto& u) { return !u.done; });
  if (m.prints && static_cast<std::size_t>(left) < units.size()) {
    note(fmt::format("{} of {} units are in {} already", units.size() - left, units.size(), part));
  }
  Progress progress(units.size());
  calibrate(
      m.calibration, m.bench, m.how,
      [&](std::size_t unit, const std::string& name) {
        if (m.prints) progress(unit, name);
      },
      [&](const Calibration& so_far) {
        if (m.prints) write_file(part, to_toml(so_far));
      });
  if (!m.prints) return 0;
  progress.end();
  m.calibration.origin.date = today();
  write_file(options.output, to_toml(m.calibration));
  std::error_code ignored;
  std::filesystem::remove(part, ignored);
  print(fmt::format("{}\n{}: {}\n", m.calibration.origin.device, options.output,
                    summary(m.calibration)));
  return 0;
}

namespace {

CalibrationOrigin origin_of(const Options& options, int ranks, int shard, bool processes) {
  utsname system{};
  uname(&system);
  CalibrationOrigin origin;
  origin.device =
      fmt::format("{}, {} threads of it", cpu_name(), std::thread::hardware_concurrency());
  origin.name = options.name.empty() ? origin.device : options.name;
  origin.driver = fmt::format("{} {}", system.sysname, system.release);
  origin.executor = processes ? "cpu processes" : "cpu threads";
  origin.source = source_of(options, ranks, shard, options.largest_mb.value_or(most_mb));
  origin.date = today();
  return origin;
}

Run prepare(const Options& options, runtime::Wire* wire) {
  const bool processes = wire != nullptr;
  const int ranks = processes ? wire->size() : options.ranks.value_or(4);
  const int shard = options.shard_group == 0 ? ranks : options.shard_group;
  check(options, ranks, shard, processes);
  auto m = std::make_shared<Measurement>();
  m->bench.mesh = {ranks / shard, shard};
  m->bench.ranks_per_node = options.ranks_per_node;
  m->bench.source = processes ? fmt::format("{} processes, {}", ranks, wire->name())
                              : fmt::format("{} threads of this machine", ranks);
  m->bench.run = [wire](const Schedule& schedule, int steps, Seconds op_seconds) {
    runtime::ExecuteOptions how;
    how.steps = steps;
    const runtime::Durations durations = runtime::timed(schedule, op_seconds);
    if (wire != nullptr) {
      runtime::Replay work(schedule, durations);
      return execute_here(wire, schedule, work, how).timeline;
    }
    runtime::RealReplay work(schedule, durations);
    return execute_here(wire, schedule, work, how).timeline;
  };
  m->how = how_to_measure(options, options.largest_mb.value_or(most_mb));
  m->prints = !processes || wire->rank() == 0;
  const CalibrationOrigin origin = origin_of(options, ranks, shard, processes);
  if (m->prints) check_output(options, origin);
  if (m->prints) m->calibration = begun(options.output + ".part", origin);
  return [options, wire, m] {
    // All processes leave out the same units: those that rank 0 has.
    if (wire != nullptr) {
      m->calibration =
          parse_calibration(from_rank_0(*wire, to_toml(m->calibration)), "what rank 0 has");
    }
    return measure(options, *m);
  };
}

int go(const Options& options) {
  if (!options.traces.empty()) return from_traces(options);
  const std::string& executor = options.executor;
  check_executor(executor, "measure");
  if (options.gpus_per_node != 0) {
    throw InputError(flag("--gpus-per-node"), "is of a trace's job; accepted: with --from-trace");
  }
  if (executor == "nccl") return calibrate_on_gpus(options);
  if (options.watchdog != Options{}.watchdog) {
    throw InputError(flag("--watchdog"), "is of GPUs; accepted: with --executor nccl");
  }
  if (!options.gpu.empty()) {
    throw InputError(flag("--gpu"),
                     "names the GPU of a trace or of this machine; accepted: with --from-trace or "
                     "--executor nccl");
  }
  if (executor == "mpi" && !runtime::under_mpirun()) {
    throw InputError(flag("--executor"), "mpi needs processes; accepted: under stepcast launch");
  }
  if (!runtime::under_mpirun()) return prepare(options, nullptr)();
  const std::unique_ptr<runtime::Wire> wire = runtime::open_mpi();
  return as_one_rank(*wire, [&] { return prepare(options, wire.get()); });
}

Run add(CLI::App& command) {
  auto options = std::make_shared<Options>();
  const auto text = [](CLI::Option* option, const char* type, const char* group) {
    option->option_text(type)->group(group);
  };
  text(command.add_option("-o,--output", options->output, "the file to write (calibration.toml)"),
       "FILE", "Output");
  text(command.add_option("--name", options->name, "of the machine, for people"), "TEXT", "Output");
  text(command.add_option("--executor", options->executor,
                          "threads of this process; mpi: processes (default under mpirun and "
                          "stepcast launch); nccl: GPUs, kernels too"),
       "NAME", "Measure");
  text(command.add_option("--ranks", options->ranks,
                          "that meet in collectives: 4 threads, or all GPUs of the machine"),
       "N", "Measure");
  text(command.add_option("--shard-group", options->shard_group,
                          "ranks that share one copy, as HSDP's: its axes are measured too"),
       "N", "Measure");
  text(command.add_option("--ranks-per-node", options->ranks_per_node,
                          "of processes on several hosts"),
       "N", "Measure");
  text(command.add_option("--largest-mb", options->largest_mb,
                          "largest collective, MiB: 64, of GPUs 256"),
       "N", "Measure");
  text(command.add_option("--sizes-mb", options->sizes_mb, "these sizes of collectives, MiB")
           ->delimiter(','),
       "N,...", "Measure");
  text(command.add_option("--dtypes", options->dtypes, "of sums: fp32, bf16 (default both), fp16")
           ->delimiter(','),
       "NAME,...", "Measure");
  command.add_flag("--quick", options->quick, "few sizes, few repetitions")->group("Measure");
  text(command.add_option("--watchdog", options->watchdog,
                          "nccl: seconds without progress until a hang is reported: 60"),
       "S", "Measure");
  text(command.add_option("--from-trace", options->traces,
                          "traces of PyTorch's profiler instead, one a rank; JSON, gzip or Chakra"),
       "FILE...", "From a trace");
  text(command.add_option("--gpu", options->gpu,
                          "catalog name of the GPU, where the trace does not tell"),
       "NAME", "From a trace");
  text(command.add_option("--gpus-per-node", options->gpus_per_node,
                          "of the trace's job (default: the devices that it lists)"),
       "N", "From a trace");
  return [options] { return go(*options); };
}

}  // namespace

const Command calibrate_command{
    "calibrate", "measure this machine, or a training from its trace",
    "  stepcast calibrate --quick --ranks 4 --output here.toml\n"
    "  stepcast launch -n 4 --hosts a:2,b:2 calibrate --ranks-per-node 2 --shard-group 2\n"
    "  stepcast calibrate --from-trace rank0.json.gz rank1.json.gz --output mine.toml\n"
    "  stepcast simulate --model gpt2 --cluster dgx-h100 --calibration mine.toml",
    add};

}  // namespace stepcast::cli
