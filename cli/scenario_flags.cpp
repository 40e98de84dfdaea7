#include "cli/scenario_flags.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <optional>
#include <string_view>
#include <type_traits>

#include "base/duration.hpp"
#include "base/error.hpp"
#include "cli/command.hpp"
#include "sim/forecast/scenario_keys.hpp"
#include "sim/jobs/combine.hpp"
#include "sim/jobs/detect.hpp"

namespace stepcast::cli {

namespace {

template <typename Field>
const char* type_name(const KeyInfo& key, const Field&) {
  if (!key.accepted.empty()) return "NAME";
  if (std::is_same_v<Field, std::optional<std::string>>) return "NAME";
  if (std::is_same_v<Field, std::optional<bool>>) return "BOOL";
  if (std::is_same_v<Field, std::optional<std::vector<std::string>>>) return "NAME,...";
  if (std::is_same_v<Field, std::optional<std::vector<double>>>) return "N,...";
  if (std::is_same_v<Field, std::optional<YesNoOrCount>>) return "BOOL|N";
  return "N";
}

}  // namespace

const std::vector<std::string>& collective_keys() {
  static const std::vector<std::string> keys{"cluster",
                                             "gpus_per_node",
                                             "fabric",
                                             "leaf_ports",
                                             "network",
                                             "oversubscription",
                                             "nic_gbps",
                                             "gpudirect_rdma",
                                             "nccl_version",
                                             "nccl",
                                             "collective_corrections",
                                             "measured_collectives",
                                             "calibration"};
  return keys;
}

ScenarioFlags::ScenarioFlags(CLI::App& command, const std::vector<std::string>& only) {
  Scenario shape;
  visit_scenario(shape, [&](const KeyInfo& key, auto& field) {
    if (!only.empty() && std::find(only.begin(), only.end(), key.name) == only.end()) return;
    using Field = std::remove_reference_t<decltype(field)>;
    std::string help = key.help;
    for (std::size_t i = 0; i < key.accepted.size(); ++i) {
      help += (i == 0 ? ": " : ", ") + key.accepted[i];
    }
    CLI::Option* option = command.add_option(flag_of(key.name), texts_[key.name], help);
    option->group(key.group)->option_text(type_name(key, field));
    // The last one wins, except where several add up: lists, and NCCL's variables, a line each.
    const bool adds_up = std::is_same_v<Field, std::optional<std::vector<std::string>>> ||
                         key.name == std::string("nccl");
    option->multi_option_policy(adds_up ? CLI::MultiOptionPolicy::Join
                                        : CLI::MultiOptionPolicy::TakeLast);
    if (std::is_same_v<Field, std::optional<bool>>) option->expected(0, 1)->default_str("true");
    options_[key.name] = option;
    if (key.name != std::string_view("replica_step_ms")) return;
    replica_step_option_ =
        command.add_option("--replica-step", replica_step_, "the same with its unit: 120ms, 0.12s");
    replica_step_option_->group(key.group)->option_text("TIME")->multi_option_policy(
        CLI::MultiOptionPolicy::TakeLast);
  });
  if (only.empty()) take_job_files(command);
}

void ScenarioFlags::take_job_files(CLI::App& command) {
  command
      .add_option("--from", job_files_,
                  "job file of DeepSpeed, accelerate, the Trainer, torchtitan, ...; repeatable")
      ->option_text("FILE")
      ->expected(1)
      ->take_all()
      ->group("Job files");
  command
      .add_flag("--ignore-unsupported", ignore_unsupported_,
                "go on without what a job file asks for and is not simulated")
      ->group("Job files");
}

Scenario ScenarioFlags::read() const {
  Scenario scenario;
  for (const ScenarioKey& key : scenario_keys()) {
    const auto known = options_.find(key.name());
    if (known == options_.end() || known->second->count() == 0) continue;
    const Where where{.file = flag_of(key.name()), .line = 0, .key = ""};
    std::string text = texts_.at(key.name());
    if (text.empty()) {
      if (key.type() != KeyType::yes_no) {
        throw InputError(where, "'' is not accepted; accepted: a value");
      }
      text = "true";  // a switch without a value
    }
    key.set(scenario, text, where);
  }
  read_replica_step(scenario);
  check_ranges(scenario);
  return scenario;
}

void ScenarioFlags::read_replica_step(Scenario& scenario) const {
  if (replica_step_option_ == nullptr || replica_step_option_->count() == 0) return;
  const Where where{.file = "--replica-step", .line = 0, .key = ""};
  if (scenario.replica_step_ms) {
    throw InputError(where, "says what --replica-step-ms says; accepted: one of them");
  }
  const std::optional<Duration> read = read_duration(replica_step_);
  // The range of replica_step_ms.
  if (!read || !(read->seconds() >= 1e-6 && read->seconds() <= 1e6)) {
    throw InputError(where, "'" + replica_step_.substr(0, 40) +
                                "' is not accepted; accepted: a time with its unit (us, ms, s, "
                                "min), 1us to 1e6s");
  }
  scenario.replica_step_ms = read->milliseconds();
  scenario.said["replica_step_ms"] = where;
}

Scenario ScenarioFlags::read(const std::string& file, std::vector<std::string>* notes) const {
  if (!file.empty()) return over(read_scenario(file), notes);
  return over(Scenario{}, notes);
}

Scenario ScenarioFlags::over(const Scenario& scenario, std::vector<std::string>* notes) const {
  const Scenario said = merged(scenario, read());
  if (job_files_.empty()) {
    if (!ignore_unsupported_) return said;
    throw InputError({.file = "--ignore-unsupported", .line = 0, .key = ""},
                     "needs --from: nothing else is ignored");
  }
  jobs::CombineOptions options;
  options.ignore_unsupported = ignore_unsupported_;
  jobs::Combined combined = jobs::combine(jobs::read_jobs(job_files_), said, options);
  for (const std::string& text : combined.notes) {
    if (notes == nullptr) {
      note(text);
    } else {
      notes->push_back(text);
    }
  }
  return std::move(combined.scenario);
}

}  // namespace stepcast::cli
