#pragma once
// Every key of a scenario as a flag. All values are taken as text and read here, so that a wrong
// one gets the same kind of message as in a file. --from takes job files of other frameworks
// (sim/jobs): they come before a scenario file, and that before flags. --replica-step says
// --replica-step-ms with a unit: 120ms, 0.12s.

#include <map>
#include <string>
#include <vector>

#include "sim/forecast/scenario.hpp"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace stepcast::cli {

// The keys that say on what a collective runs, without how many GPUs.
const std::vector<std::string>& collective_keys();

class ScenarioFlags {
 public:
  // `only`: the keys that the command takes; none: all, and job files.
  explicit ScenarioFlags(CLI::App& command, const std::vector<std::string>& only = {});
  void take_job_files(CLI::App& command);

  // What was given on the command line. Throws InputError naming the flag.
  Scenario read() const;
  // The same over job files and a scenario file, where they were named: flags win. What was read of
  // job files goes into `notes`; null: to stderr, a line each.
  Scenario read(const std::string& file, std::vector<std::string>* notes = nullptr) const;
  // Over a scenario that was read already.
  Scenario over(const Scenario& scenario, std::vector<std::string>* notes = nullptr) const;

 private:
  void read_replica_step(Scenario& scenario) const;

  std::map<std::string, std::string> texts_;  // by key; stable addresses for CLI11
  std::map<std::string, CLI::Option*> options_;
  std::string replica_step_;
  CLI::Option* replica_step_option_ = nullptr;  // none: the command does not take the key
  std::vector<std::string> job_files_;
  bool ignore_unsupported_ = false;
};

}  // namespace stepcast::cli
