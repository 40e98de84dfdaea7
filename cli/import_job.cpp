// stepcast import job FILE...: what a job file of another framework says, as a scenario with a
// comment on every value; or, with --emit, as the configuration of yet another framework.

#include "cli/import_job.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/toml.hpp"
#include "cli/emit.hpp"
#include "cli/scenario_flags.hpp"
#include "sim/jobs/combine.hpp"
#include "sim/jobs/detect.hpp"
#include "sim/jobs/emit.hpp"
#include "sim/jobs/scenario_text.hpp"

namespace stepcast::cli {

namespace {

struct Options {
  std::vector<std::string> files;
  std::string output, emit;
  bool ignore_unsupported = false;
};

// Relative paths of a scenario file are taken from its folder.
void keep_path(std::optional<std::string>& value, const std::string& output) {
  namespace fs = std::filesystem;
  if (!value || output.empty() || value->find('/') == std::string::npos) return;
  const fs::path path(*value);
  std::error_code failed;
  if (!path.is_relative() || !fs::exists(path, failed)) return;
  const fs::path folder = fs::absolute(output, failed).parent_path();
  const fs::path relative = fs::relative(path, folder, failed);
  if (!failed && !relative.empty()) value = relative.string();
}

int emit_other(const jobs::Combined& combined, const Options& options) {
  if (!combined.asked.empty()) {
    for (const jobs::Asked& asked : combined.asked) {
      if (asked.required && asked.key != "model") throw InputError(asked.where, asked.sentence);
    }
  }
  const std::string text = emitted(combined.scenario, options.emit);
  if (options.output.empty()) {
    print(text);
  } else {
    write_file(options.output, text);
  }
  return 0;
}

int import_job(const Options& options, const ScenarioFlags& flags) {
  if (!options.emit.empty()) {
    const std::vector<std::string>& known = jobs::emit_formats();
    if (std::find(known.begin(), known.end(), options.emit) == known.end()) {
      throw not_accepted({.file = "--emit", .line = 0, .key = ""}, options.emit, known);
    }
  }
  jobs::CombineOptions how;
  how.ignore_unsupported = options.ignore_unsupported;
  how.ask = true;
  jobs::Combined combined = jobs::combine(jobs::read_jobs(options.files), flags.read(), how);
  check_ranges(combined.scenario);
  if (!options.emit.empty()) return emit_other(combined, options);
  for (std::optional<std::string>* path :
       {&combined.scenario.model, &combined.scenario.cluster, &combined.scenario.profile,
        &combined.scenario.calibration, &combined.scenario.measured_collectives}) {
    keep_path(*path, options.output);
  }
  const std::string text = jobs::scenario_text(combined);
  parse_scenario(text, options.output.empty() ? "scenario" : options.output);
  if (options.output.empty()) {
    print(text);
  } else {
    write_file(options.output, text);
    for (const std::string& said : combined.notes) note(said);
    for (const jobs::Asked& asked : combined.asked) {
      if (asked.required) note(fmt::format("to be said: {}: {}", asked.key, asked.sentence));
    }
  }
  return 0;
}

std::vector<std::string> all_keys() {
  std::vector<std::string> keys;
  const Scenario shape;
  visit_scenario(shape, [&](const KeyInfo& key, const auto&) { keys.emplace_back(key.name); });
  return keys;
}

}  // namespace

void add_import_job(CLI::App& parent, const std::shared_ptr<Run>& run) {
  CLI::App* command = parent.add_subcommand(
      "job", "job files of DeepSpeed, accelerate, the Trainer, torchtitan, ... as a scenario");
  command->footer(
      "Example:\n"
      "  stepcast import job ds_config.json config.json --cluster dgx-h100 --nodes 4 -o "
      "scenario.toml\n"
      "  stepcast import job llama3_8b.toml --gpus 8 --emit accelerate");
  command->allow_extras();
  auto options = std::make_shared<Options>();
  command->add_option("files", options->files, "job files that say one step together")
      ->required()
      ->option_text("FILE...");
  command->add_option("-o,--output", options->output, "write the scenario here (default: stdout)")
      ->option_text("FILE");
  command
      ->add_option("--emit", options->emit,
                   "write another framework's configuration instead: deepspeed, accelerate, "
                   "torchtitan")
      ->option_text("FORMAT");
  command->add_flag("--ignore-unsupported", options->ignore_unsupported,
                    "go on without what is asked for and is not simulated");
  // Keys by flag, without --from: the files are arguments here.
  auto flags = std::make_shared<ScenarioFlags>(*command, all_keys());
  command->callback(
      [options, flags, run] { *run = [options, flags] { return import_job(*options, *flags); }; });
}

}  // namespace stepcast::cli
