// stepcast gpu-check: everything that needs a GPU, on one of them, in a few minutes, into one
// folder.
//
//   kernels      each call of training beside float64 on the host
//   train        each strategy on one rank, float64: the parameters of the plain loop; with
//                clipping, with SGD
//   calibrate    what calibrate --quick measures of one rank, kernels first, as calibration.toml
//   validate     a step of GPT-2 under each strategy, replayed with its true kernels, beside the
//                forecast with the calibration and the one without: time, memory, what is to blame
//   two ranks    two processes on this one GPU, as two hosts to NCCL (NCCL_HOSTID) over loopback:
//                NCCL may refuse it, which is said and is no failure
//
// In the order of their worth: checks that have not begun after seven minutes are left out, and
// said. Results are written after each.

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/error.hpp"
#include "base/toml.hpp"
#include "base/version.hpp"
#include "cli/calibrate.hpp"
#include "cli/command.hpp"
#include "cli/run_gpu.hpp"
#include "runtime/cuda/frame.hpp"
#include "runtime/cuda/gpu_replay.hpp"
#include "runtime/cuda/gpu_trainer.hpp"
#include "runtime/cuda/kernel_check.hpp"
#include "sim/report/format.hpp"
#include "validate/calibrate.hpp"
#include "validate/compare.hpp"
#include "validate/durations.hpp"
#include "validate/gpu_bench.hpp"

namespace stepcast::cli {

namespace {

namespace fs = std::filesystem;

constexpr Seconds latest_begin = 420;  // of a check, after the start
constexpr Seconds two_ranks_at_most = 90;

struct Options {
  std::string output = "gpu-check";
};

struct Outcome {
  enum class How { passed, failed, left_out } how = How::passed;
  std::string text;
};

const std::vector<std::string> strategies{"dp",    "ddp",   "zero1", "zero2",
                                          "zero3", "fsdp1", "fsdp2", "hsdp"};

// The catalog's machine whose GPU this is, so that forecasts speak of the right one; empty where
// none has it.
std::string machine_of(const std::string& device) {
  const std::pair<const char*, const char*> known[] = {
      {"GH200", "gh200-1x"}, {"H200", "dgx-h200"},    {"H100", "dgx-h100"},
      {"B200", "hgx-b200"},  {"A100", "dgx-a100"},    {"V100", "dgx-1v"},
      {"L40S", "l40s-8x"},   {"4090", "rtx-4090-8x"}, {"3090", "rtx-3090-2x"}};
  for (const auto& [part, machine] : known) {
    if (device.find(part) != std::string::npos) return machine;
  }
  return {};
}

Scenario scenario(const std::string& model, const std::string& machine,
                  const std::string& strategy) {
  Scenario s;
  s.model = model;
  s.cluster = machine;
  s.gpus = 1;
  s.strategy = strategy;
  if (strategy == "hsdp") s.shard_group = 1;
  return s;
}

// ---- Checks -------------------------------------------------------------------------------------

class Checks {
 public:
  Checks(const Options& options, runtime::GpuTables tables)
      : folder_(options.output), tables_(std::move(tables)) {
    gpu_ = tables_.gpu->info(0);
    machine_ = machine_of(gpu_.name);
    known_ = !machine_.empty();
    if (!known_) machine_ = "dgx-h100";
  }

  int run() {
    fs::create_directories(folder_);
    print(fmt::format("{}, compute capability {}.{}; {}\n", gpu_.name, gpu_.major, gpu_.minor,
                      fmt::join(tables_.software, ", ")));
    print(known_ ? fmt::format("forecasts speak of a GPU of the catalog's {}\n", machine_)
                 : fmt::format("no machine of the catalog has this GPU: forecasts without the "
                               "calibration speak of {}\n",
                               machine_));
    check("kernels against float64", [&] { return kernels(); });
    for (const std::string& strategy : strategies) {
      check(fmt::format("train, {}, one rank", strategy), [&] { return train(strategy, {}); });
    }
    check("train, fsdp2, clipped SGD", [&] { return train("fsdp2", "sgd-momentum"); });
    check("calibrate --quick", [&] { return calibrate_quick(); });
    for (const std::string& strategy : strategies) {
      check(fmt::format("validate gpt2, {}, one rank", strategy),
            [&] { return validate(strategy); });
    }
    check("train, two processes on this GPU", [&] { return two_ranks(); });
    write();
    print(fmt::format("\n{} of {} checks failed; results in {}\n", failed_, results_.size(),
                      folder_.string()));
    return failed_ == 0 ? 0 : 1;
  }

 private:
  void check(const std::string& name, const std::function<Outcome()>& body) {
    const auto seconds = [](auto since) {
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - since).count();
    };
    Outcome outcome;
    const auto began = std::chrono::steady_clock::now();
    if (seconds(started_) > latest_begin) {
      outcome = {Outcome::How::left_out, "there was no time left for it"};
    } else {
      try {
        outcome = body();
      } catch (const std::exception& error) {
        outcome = {Outcome::How::failed, error.what()};
      }
    }
    const char* verdict = outcome.how == Outcome::How::passed   ? "passed"
                          : outcome.how == Outcome::How::failed ? "FAILED"
                                                                : "left out";
    failed_ += outcome.how == Outcome::How::failed ? 1 : 0;
    print(
        fmt::format("{:<36} {:<8} {:>6.1f} s  {}\n", name, verdict, seconds(began), outcome.text));
    nlohmann::ordered_json row;
    row["check"] = name;
    row["verdict"] = verdict;
    row["seconds"] = seconds(began);
    row["text"] = outcome.text;
    results_.push_back(row);
    write();  // so far: a check that takes the process down leaves what was before it
  }

  Outcome kernels() {
    if (tables_.math == nullptr) return {Outcome::How::failed, tables_.no_math};
    tables_.gpu->use(0);
    int failed = 0;
    std::string worst;
    nlohmann::ordered_json all;
    const auto checks = runtime::check_kernels(tables_);
    for (const runtime::KernelCheck& each : checks) {
      all.push_back({{"name", each.name}, {"error", each.error}, {"accepted", each.accepted}});
      if (each.passed()) continue;
      ++failed;
      worst += fmt::format("; {}: {:.1e}, accepted {:.0e}", each.name, each.error, each.accepted);
    }
    write_file((folder_ / "kernels.json").string(), all.dump(2) + "\n");
    return {failed == 0 ? Outcome::How::passed : Outcome::How::failed,
            fmt::format("{} calls, {} wrong{}", checks.size(), failed, worst)};
  }

  // Clipped where an optimizer is named.
  Outcome train(const std::string& strategy, const std::optional<std::string>& optimizer) {
    if (tables_.math == nullptr) return {Outcome::How::failed, tables_.no_math};
    Scenario s = scenario("residual-mlp", machine_, strategy);
    s.precision = "fp32";
    s.micro_batch = 4;
    s.accumulation = 2;
    s.seq_len = 8;
    s.optimizer = optimizer;
    if (optimizer) s.clip_grad_norm = true;
    RunCommandOptions options;
    options.float64 = true;
    const Forecast f = forecast(s, {.search_change = false, .to_run = true});
    const TrainSetup setup = train_setup(options, s, f);
    runtime::GpuTrainer work(setup.schedule, setup.shape, setup.data, tables_);
    const runtime::Trained one_rank = setup.one_rank();
    work.compare_with(one_rank.parameters, setup.shares);
    runtime::GpuExecuteOptions how;
    how.steps = work.executed_steps();
    const auto run = runtime::execute_on_gpus(setup.schedule, work, tables_, how);
    const double difference = work.verdict(run).difference;
    return {difference <= 1e-12 ? Outcome::How::passed : Outcome::How::failed,
            fmt::format("parameters differ by {:.1e} of their norm, accepted 1e-12", difference)};
  }

  // This program twice, as torchrun would start it on two hosts.
  Outcome two_ranks() {
    int port = 0;
    { port = runtime::Listener(0).port(); }
    // A bundle's program is started through its own loader, which is then what /proc names.
    std::error_code error;
    const char* self = std::getenv("STEPCAST_SELF");
    const std::string program =
        self != nullptr ? self : fs::read_symlink("/proc/self/exe", error).string();
    std::vector<pid_t> pids;
    std::vector<std::string> logs;
    for (int rank = 0; rank < 2; ++rank) {
      logs.push_back((folder_ / fmt::format("two-ranks-{}.txt", rank)).string());
      pids.push_back(spawn({program, "run", "--executor", "nccl", "--compute", "train", "--model",
                            "residual-mlp", "--cluster", machine_, "--gpus", "2", "--strategy",
                            "fsdp2", "--precision", "fp32", "--float64", "--watchdog", "30"},
                           {{"RANK", std::to_string(rank)},
                            {"WORLD_SIZE", "2"},
                            {"LOCAL_RANK", "0"},
                            {"MASTER_ADDR", "127.0.0.1"},
                            {"MASTER_PORT", std::to_string(port)},
                            {"CUDA_VISIBLE_DEVICES", first_device()},
                            {"NCCL_HOSTID", fmt::format("stepcast-{}", rank)},
                            {"NCCL_SOCKET_IFNAME", "lo"},
                            {"NCCL_IB_DISABLE", "1"}},
                           logs.back()));
    }
    const bool in_time = wait_for(pids);
    if (in_time && codes_ == std::vector<int>{0, 0}) {
      return {Outcome::How::passed, "parameters of one rank, over loopback"};
    }
    const std::string said =
        fmt::format("{} (unsupported by NVIDIA; {})",
                    in_time ? "NCCL did not do it" : "it did not end", last_line(logs[0]));
    return {Outcome::How::left_out, said};
  }

  static std::string first_device() {
    const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
    const std::string list = visible == nullptr || *visible == '\0' ? "0" : visible;
    return list.substr(0, list.find(','));
  }

  // fork and exec, not posix_spawn with an environment of its own making: a program that names
  // `environ` owns a copy of it, and Open MPI's libraries, opened with RTLD_DEEPBIND, would look at
  // libc's (runtime/mpi/open.cpp).
  pid_t spawn(const std::vector<std::string>& words, const std::map<std::string, std::string>& add,
              const std::string& log) {
    std::vector<char*> argv;
    for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    const pid_t pid = fork();
    if (pid < 0) throw std::runtime_error("the second process does not start");
    if (pid > 0) return pid;
    const int file = open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (file < 0 || dup2(file, 1) < 0 || dup2(file, 2) < 0) _exit(127);
    for (const auto& [name, value] : add) setenv(name.c_str(), value.c_str(), 1);
    execv(argv[0], argv.data());
    _exit(127);
  }

  // False when they did not end in time: they are ended.
  bool wait_for(const std::vector<pid_t>& pids) {
    codes_.assign(pids.size(), -1);
    std::vector<bool> over(pids.size(), false);
    const auto until = std::chrono::steady_clock::now() +
                       std::chrono::seconds(static_cast<int>(two_ranks_at_most));
    bool in_time = true;
    for (std::size_t left = pids.size(); left > 0;) {
      for (std::size_t i = 0; i < pids.size(); ++i) {
        int status = 0;
        if (over[i] || waitpid(pids[i], &status, in_time ? WNOHANG : 0) != pids[i]) continue;
        over[i] = true;
        --left;
        codes_[i] = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
      }
      if (left > 0 && in_time && std::chrono::steady_clock::now() > until) {
        in_time = false;
        for (std::size_t i = 0; i < pids.size(); ++i) {
          if (!over[i]) kill(pids[i], SIGKILL);
        }
      }
      if (left > 0 && in_time) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    return in_time;
  }

  static std::string last_line(const std::string& file) {
    std::string text = read_file(file);
    while (!text.empty() && text.back() == '\n') text.pop_back();
    return text.substr(text.rfind('\n') + 1);
  }

  Scenario gpt2(const std::string& strategy) const {
    Scenario s = scenario("gpt2", machine_, strategy);
    s.seq_len = 1024;
    s.micro_batch = 4;
    return s;
  }
  runtime::GpuExecution replayed(const Schedule& schedule, runtime::GpuReplay& work, int steps) {
    runtime::GpuExecuteOptions how;
    how.steps = steps;
    return runtime::execute_on_gpus(schedule, work, tables_, how);
  }

  Outcome calibrate_quick() {
    if (tables_.kernels == nullptr) return {Outcome::How::failed, tables_.no_kernels};
    Calibration c;
    c.origin = gpu_origin(tables_, load_machine(machine_).gpu.name);
    c.origin.source = fmt::format("stepcast {} gpu-check", version());
    c.origin.date = today();
    const Bench bench = gpu_bench(tables_, {1, 1}, {}, 0);
    CalibrateOptions how;
    how.quick = true;
    calibrate(
        c, bench, how, [](std::size_t, const std::string&) {},
        [&](const Calibration& so_far) { write_file(calibration(), to_toml(so_far)); });
    return {Outcome::How::passed,
            fmt::format("{}; {:.0f} GB/s", summary(c), c.kernels.memory_bytes_per_second * 1e-9)};
  }

  Outcome validate(const std::string& strategy) {
    if (tables_.kernels == nullptr) return {Outcome::How::failed, tables_.no_kernels};
    Scenario s = gpt2(strategy);
    const Seconds catalog_alone =
        forecast(s, {.search_change = false, .to_run = true}).report.step_time;
    if (fs::exists(calibration())) s.calibration = calibration();
    const Forecast f = forecast(s, {.search_change = false, .to_run = true});
    runtime::GpuReplay work(f.schedule, durations_of(f.schedule, f.costs), tables_);
    const runtime::GpuExecution run = replayed(f.schedule, work, 7);
    const Comparison c = compare(f, measured_of(run));
    const std::string stem = (folder_ / fmt::format("validate-{}", strategy)).string();
    write_file(stem + ".txt", to_text(c));
    write_file(stem + ".json", to_json(c));
    write_file(stem + "-trace.json", both_as_trace(f, run.timeline));
    return {Outcome::How::passed,
            fmt::format("{} a step, forecast {} ({:+.1f} %), by the catalog alone {}; {}{}",
                        human_seconds(c.step.measured), human_seconds(c.step.forecast),
                        100 * c.step.error(), human_seconds(catalog_alone), memory_of(c),
                        fmt::join(work.labels(), ", "))};
  }

  static std::string memory_of(const Comparison& c) {
    if (c.memory.empty()) return {};
    const ComparedNumber& peak = c.memory.front();
    return fmt::format("{} {}, forecast {}; ", peak.name, human_bytes(peak.measured),
                       human_bytes(peak.forecast));
  }

  std::string calibration() const { return (folder_ / "calibration.toml").string(); }

  void write() {
    nlohmann::ordered_json json;
    json["schema"] = "stepcast.gpu-check/1";
    json["version"] = std::string(version());
    json["gpu"] = gpu_.name;
    json["forecast_machine"] = machine_;
    json["compute_capability"] = fmt::format("{}.{}", gpu_.major, gpu_.minor);
    json["software"] = tables_.software;
    json["failed"] = failed_;
    json["checks"] = results_;
    write_file((folder_ / "gpu-check.json").string(), json.dump(2) + "\n");
  }

  fs::path folder_;
  runtime::GpuTables tables_;
  runtime::GpuInfo gpu_;
  std::string machine_;
  bool known_ = false;  // the catalog has a machine with this GPU
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  std::vector<nlohmann::ordered_json> results_;
  std::vector<int> codes_;
  int failed_ = 0;
};

int go(const Options& options) {
  runtime::GpuTables tables;
  try {
    tables = runtime::open_gpus();
  } catch (const runtime::GpuError& none) {
    throw InputError({.file = "gpu-check", .line = 0, .key = ""}, none.what());
  }
  return Checks(options, std::move(tables)).run();
}

Run add(CLI::App& command) {
  auto options = std::make_shared<Options>();
  command
      .add_option("-o,--output", options->output, "the folder for results and traces (gpu-check)")
      ->option_text("FOLDER");
  return [options] { return go(*options); };
}

}  // namespace

const Command gpu_check_command{"gpu-check", "check kernels, training and replay on a GPU",
                                "  stepcast gpu-check --output h100-results", add};

}  // namespace stepcast::cli
