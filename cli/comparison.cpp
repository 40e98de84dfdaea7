#include "cli/comparison.hpp"

#include <CLI/CLI.hpp>

#include "sim/forecast/compared.hpp"

namespace stepcast::cli {

ComparisonCommand::ComparisonCommand(CLI::App& command, const std::string& schema)
    : flags_(command, compared_keys()) {
  flags_.take_job_files(command);
  command
      .add_option("scenario", file_,
                  "scenario file in TOML; flags override it, its strategy and engine do not count")
      ->option_text("FILE");
  command.add_flag("--json", json_, "print JSON, schema " + schema)->group("Output");
}

Scenario ComparisonCommand::scenario() const { return only_compared(flags_.read(file_)); }

}  // namespace stepcast::cli
