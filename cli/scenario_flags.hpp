#pragma once
// Every key of a scenario as a flag. All values are taken as text and read here, so that a wrong
// one gets the same kind of message as in a file.

#include <CLI/CLI.hpp>
#include <map>
#include <string>
#include <vector>

#include "sim/forecast/scenario.hpp"

namespace stepcast::cli {

// The keys that say on what a collective runs, without how many GPUs.
const std::vector<std::string>& collective_keys();

class ScenarioFlags {
 public:
  // `only`: the keys that the command takes; none: all.
  explicit ScenarioFlags(CLI::App& command, const std::vector<std::string>& only = {});

  // What was given on the command line. Throws InputError naming the flag.
  Scenario read() const;
  // The same over a scenario file, where one was named: flags win.
  Scenario read(const std::string& file) const;

 private:
  std::map<std::string, std::string> texts_;  // by key; stable addresses for CLI11
  std::map<std::string, CLI::Option*> options_;
};

}  // namespace stepcast::cli
