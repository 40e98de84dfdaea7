// stepcast calibrate: measures this machine, or reads a trace of somebody's own training.

#include "validate/calibrate.hpp"

#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>

#include "base/error.hpp"
#include "base/toml.hpp"
#include "base/version.hpp"
#include "cli/command.hpp"
#include "runtime/cpu/executor.hpp"
#include "runtime/real_replay.hpp"
#include "sim/calibration/from_trace.hpp"
#include "sim/report/format.hpp"

namespace stepcast::cli {

namespace {

struct Options {
  std::vector<std::string> traces;
  std::string output = "calibration.toml";
  std::string name;
  std::string gpu;
  int ranks = 4;
  int shard_group = 0;
  int gpus_per_node = 0;
  double largest_mb = 64;
  bool quick = false;
};

Where flag(const char* name) { return {.file = name, .line = 0, .key = ""}; }

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[16];
  std::strftime(text, sizeof text, "%Y-%m-%d", &parts);
  return text;
}

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

int on_threads(const Options& options) {
  if (options.ranks < 2 || options.ranks > 64) {
    throw InputError(flag("--ranks"),
                     fmt::format("{} is out of range; accepted: 2 to 64 threads", options.ranks));
  }
  const int shard = options.shard_group == 0 ? options.ranks : options.shard_group;
  if (shard < 1 || options.ranks % shard != 0) {
    throw InputError(
        flag("--shard-group"),
        fmt::format("{} does not divide {} ranks; accepted: a divisor", shard, options.ranks));
  }
  if (!(options.largest_mb >= 0.001 && options.largest_mb <= 4096)) {
    throw InputError(flag("--largest-mb"), fmt::format("{} is out of range; accepted: 0.001 to "
                                                       "4096 MiB",
                                                       options.largest_mb));
  }
  utsname system{};
  uname(&system);
  CalibrationOrigin origin;
  origin.device =
      fmt::format("{}, {} threads of it", cpu_name(), std::thread::hardware_concurrency());
  origin.name = options.name.empty() ? origin.device : options.name;
  origin.driver = fmt::format("{} {}", system.sysname, system.release);
  origin.executor = "cpu threads";
  origin.source =
      fmt::format("stepcast {} calibrate{} --ranks {} --shard-group {} --largest-mb {}", version(),
                  options.quick ? " --quick" : "", options.ranks, shard, options.largest_mb);
  origin.date = today();

  Bench bench;
  bench.mesh = {options.ranks / shard, shard};
  bench.source = fmt::format("{} threads of this machine", options.ranks);
  bench.run = [](const Schedule& schedule, int steps, Seconds op_seconds) {
    runtime::RealReplay work(schedule, runtime::timed(schedule, op_seconds));
    runtime::ExecuteOptions how;
    how.steps = steps;
    return runtime::execute(schedule, work, how).timeline;
  };
  const CalibrateOptions how{options.quick,
                             static_cast<Bytes>(options.largest_mb * static_cast<double>(mib))};
  const std::string part = options.output + ".part";
  Calibration c = begun(part, origin);
  const std::vector<CalibrateUnit> units = calibrate_units(c, bench, how);
  const auto left =
      std::count_if(units.begin(), units.end(), [](const auto& u) { return !u.done; });
  if (static_cast<std::size_t>(left) < units.size()) {
    note(fmt::format("{} of {} units are in {} already", units.size() - left, units.size(), part));
  }
  Progress progress(units.size());
  calibrate(
      c, bench, how, [&](std::size_t unit, const std::string& name) { progress(unit, name); },
      [&](const Calibration& so_far) { write_file(part, to_toml(so_far)); });
  progress.end();
  c.origin.date = origin.date;
  write_file(options.output, to_toml(c));
  std::error_code ignored;
  std::filesystem::remove(part, ignored);
  print(fmt::format("{}\n{}: {}\n", origin.device, options.output, summary(c)));
  return 0;
}

int go(const Options& options) {
  if (!options.traces.empty()) return from_traces(options);
  if (!options.gpu.empty()) {
    throw InputError(flag("--gpu"), "needs --from-trace: it names the GPU of the trace");
  }
  return on_threads(options);
}

Run add(CLI::App& command) {
  auto options = std::make_shared<Options>();
  const auto text = [](CLI::Option* option, const char* type, const char* group) {
    option->option_text(type)->group(group);
  };
  text(command.add_option("--output", options->output, "the file to write (calibration.toml)"),
       "FILE", "Output");
  text(command.add_option("--name", options->name, "of the machine, for people"), "TEXT", "Output");
  text(command.add_option("--ranks", options->ranks, "threads that meet in collectives: 4"), "N",
       "Measure");
  text(command.add_option("--shard-group", options->shard_group,
                          "ranks that share one copy, as HSDP's: its axes are measured too"),
       "N", "Measure");
  text(command.add_option("--largest-mb", options->largest_mb, "largest collective, MiB: 64"), "N",
       "Measure");
  command.add_flag("--quick", options->quick, "few sizes, few repetitions")->group("Measure");
  text(command.add_option("--from-trace", options->traces,
                          "traces of PyTorch's profiler instead, one a rank; JSON or gzip"),
       "FILE...", "From a trace");
  text(command.add_option("--gpu", options->gpu, "catalog name of the trace's GPU"), "NAME",
       "From a trace");
  text(command.add_option("--gpus-per-node", options->gpus_per_node,
                          "of the trace's job (default: the devices that it lists)"),
       "N", "From a trace");
  return [options] { return go(*options); };
}

}  // namespace

const Command calibrate_command{
    "calibrate", "measure this machine, or a training from its trace",
    "  stepcast calibrate --quick --ranks 4 --output here.toml\n"
    "  stepcast calibrate --from-trace rank0.json.gz rank1.json.gz --output mine.toml\n"
    "  stepcast simulate --model gpt2 --cluster dgx-h100 --calibration mine.toml",
    add};

}  // namespace stepcast::cli
