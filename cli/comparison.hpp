#pragma once
// What `stepcast memory` and `stepcast volume` have in common: a scenario file of which only some
// keys count, flags for the same keys, and text or JSON. Tested by tests/cli.

#include <string>

#include "cli/command.hpp"
#include "cli/scenario_flags.hpp"

namespace stepcast::cli {

class ComparisonCommand {
 public:
  // Adds the options. The object must outlive the parsing and stay where it is.
  ComparisonCommand(CLI::App& command, const std::string& schema);
  ComparisonCommand(const ComparisonCommand&) = delete;
  ComparisonCommand& operator=(const ComparisonCommand&) = delete;

  Scenario scenario() const;  // of the file and the flags; throws InputError

  template <typename Comparison>
  int show(const Comparison& comparison) const {
    print(json_ ? to_json(comparison) : to_text(comparison));
    return 0;
  }

 private:
  std::string file_;
  bool json_ = false;
  ScenarioFlags flags_;
};

}  // namespace stepcast::cli
