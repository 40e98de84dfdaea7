// stepcast tune: the fastest combination of knobs for one model on one cluster.

#include "sim/sweep/tune.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <memory>
#include <optional>

#include "base/error.hpp"
#include "base/toml.hpp"
#include "cli/command.hpp"
#include "cli/emit.hpp"
#include "cli/progress.hpp"
#include "cli/scenario_flags.hpp"
#include "cli/sweep_output.hpp"
#include "sim/forecast/resolve.hpp"
#include "sim/forecast/scenario_keys.hpp"
#include "sim/jobs/emit.hpp"
#include "sim/sweep/ranks.hpp"

namespace stepcast::cli {

namespace {

constexpr int exit_interrupted = 130;

std::atomic<bool> interrupted{false};

struct Options {
  std::string file, out, emit;
  std::vector<std::string> keep;
  std::int64_t global_batch = 0;
  double headroom = 0;
  int jobs = 0;
  bool json = false;
};

// Paths as they are found from anywhere: the file may lie in another folder than the scenario.
Scenario with_whole_paths(Scenario s) {
  for (const char* name : {"model", "cluster", "profile", "measured_collectives", "calibration"}) {
    const ScenarioKey& key = scenario_key(name);
    if (!key.is_set(s)) continue;
    const std::string text = key.text(s), path = scenario_path(s, name, text);
    std::error_code none;
    if (!std::filesystem::exists(path, none)) continue;
    key.set(s, std::filesystem::absolute(path, none).lexically_normal().string(), s.where(name));
  }
  return s;
}

// With --emit the search stays among what that framework runs, and says so.
void choose_strategies(const Options& o, const Scenario& scenario, TuneOptions& options) {
  options.strategies = jobs::emit_strategies(o.emit);
  options.checkpointing = jobs::emit_checkpointing(o.emit);
  if (o.json && o.out.empty()) {
    throw InputError({.file = "--emit", .line = 0, .key = ""},
                     "with --json there is only one stdout for both; accepted: with --output FILE");
  }
  if (std::find(o.keep.begin(), o.keep.end(), "strategy") == o.keep.end()) {
    note(fmt::format("of the strategies, those that {} runs: {}", o.emit,
                     fmt::join(options.strategies, ", ")));
  } else if (scenario.strategy || scenario.sharding_strategy) {
    jobs::check_emits(scenario, o.emit);
  }
}

std::string as_scenario(const Tuned& tuned) {
  return "# The fastest of " + std::to_string(tuned.screened) +
         " combinations, by `stepcast tune`.\n" + to_toml(with_whole_paths(tuned.best.scenario));
}

int run(const Options& o, const ScenarioFlags& flags) {
  const Scenario scenario = flags.read(o.file);
  if (scenario.params) {
    throw InputError(scenario.where("params"),
                     "a parameter count alone has no step; accepted: "
                     "model");
  }
  if (scenario.gpu) {
    throw InputError(scenario.where("gpu"), "applies to params only; accepted: cluster");
  }
  if (scenario.engine) {
    throw InputError(scenario.where("engine"), "tune uses both engines; accepted: without");
  }
  if (!o.out.empty()) check_writable(o.out, "--output");
  TuneOptions options;
  if (!o.emit.empty()) choose_strategies(o, scenario, options);
  options.keep = o.keep;
  if (o.global_batch > 0) options.global_batch = o.global_batch;
  if (std::isnan(o.headroom)) {  // CLI::Range lets it pass
    throw InputError({.file = "--headroom", .line = 0, .key = ""},
                     "'nan' is not accepted; accepted: 0 to 0.95");
  }
  options.headroom = o.headroom;
  options.jobs = o.jobs > 0 ? o.jobs : default_jobs({});
  options.stop = &interrupted;
  std::unique_ptr<Progress> progress;
  std::string phase;
  std::size_t total = 0;
  options.progress = [&](const std::string& now, std::size_t done, std::size_t all) {
    if (all == 0) return;
    if (now != phase || all != total) {
      progress = std::make_unique<Progress>(all, "combinations " + now);
    }
    phase = now;
    total = all;
    progress->at(done);
  };
  for (const int signal : {SIGTERM, SIGINT}) {
    std::signal(signal, [](int) { interrupted.store(true); });
  }
  const std::optional<Tuned> tuned = tune(scenario, options);
  progress.reset();
  if (!tuned) {
    note("stopped");
    return exit_interrupted;
  }
  const std::string best =
      o.emit.empty() ? as_scenario(*tuned) : emitted(tuned->best.scenario, o.emit);
  if (!o.emit.empty() && o.out.empty()) {
    print(best);
    return 0;
  }
  if (!o.out.empty()) write_file(o.out, best);
  print(o.json ? to_json(*tuned) : to_text(*tuned));
  if (!o.out.empty()) note("the best is written to " + o.out);
  return 0;
}

Run add(CLI::App& command) {
  auto o = std::make_shared<Options>();
  auto flags = std::make_shared<ScenarioFlags>(command);
  command
      .add_option("scenario", o->file,
                  "scenario file in TOML; what it says of the knobs is what the best is compared "
                  "with")
      ->option_text("FILE");
  const char* group = "Tuning";
  command
      .add_option("--global-batch", o->global_batch,
                  "samples a step, of all GPUs: accumulation follows the micro-batch")
      ->option_text("N")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1'000'000'000'000}))
      ->group(group);
  command
      .add_option(
          "--keep", o->keep,
          "knobs that stay as they are said: strategy, checkpointing, micro_batch, "
          "accumulation, accumulation_sync, shard_group, reshard_after_forward, bucket_cap_mb, "
          "reduce_bucket_size")
      ->option_text("KEY,...")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->group(group);
  command.add_option("--headroom", o->headroom, "share of the memory that stays free (default 0)")
      ->option_text("X")
      ->check(CLI::Range(0.0, 0.95))
      ->group(group);
  command.add_option("-j,--jobs", o->jobs, "worker processes (default: the cores)")
      ->option_text("N")
      ->check(CLI::Range(1, 1024))
      ->group(group);
  command
      .add_option("--emit", o->emit,
                  "the best as a framework's configuration, of the strategies that it runs: "
                  "deepspeed, accelerate, torchtitan (default: a scenario)")
      ->option_text("FORMAT")
      ->group("Output");
  command.add_option("-o,--output", o->out, "write the best here; without, --emit prints it alone")
      ->option_text("FILE")
      ->group("Output");
  command.add_flag("--json", o->json, "print JSON, schema stepcast.tune/1")->group("Output");
  return [o, flags] { return run(*o, *flags); };
}

}  // namespace

const Command tune_command{
    "tune", "find the fastest strategy, micro-batch, checkpointing and bucket size",
    "  stepcast tune --model llama-3-8b --cluster dgx-h100 --nodes 4 --seq-len 8192 \\\n"
    "    --global-batch 256 -o best.toml\n"
    "  stepcast tune step.toml --keep strategy,micro_batch --headroom 0.1\n"
    "  stepcast tune step.toml --emit torchtitan > train.toml",
    add};

}  // namespace stepcast::cli
