// stepcast explain: why a step takes as long as it does, and the change that gains most.

#include "sim/explain/explain.hpp"

#include <CLI/CLI.hpp>
#include <memory>

#include "base/error.hpp"
#include "cli/command.hpp"
#include "cli/document_output.hpp"
#include "cli/scenario_flags.hpp"

namespace stepcast::cli {

namespace {

struct Options {
  std::string file;
  DocumentOutput output{.kind = "explain"};
};

int run(const Options& options, const ScenarioFlags& flags) {
  options.output.check();
  const Scenario scenario = flags.read(options.file);
  if (scenario.params) {
    throw InputError(scenario.where("params"), "a step has a model; accepted: --model");
  }
  if (scenario.gpu) {
    throw InputError(scenario.where("gpu"), "applies to --params only; the machine has the GPU");
  }
  const Explanation explanation = explain(scenario);
  options.output.show(explanation);
  if (!explanation.report.fits) throw InfeasibleError(shortage(explanation.report));
  return 0;
}

Run add(CLI::App& command) {
  auto options = std::make_shared<Options>();
  auto flags = std::make_shared<ScenarioFlags>(command);
  command.add_option("scenario", options->file, "scenario file in TOML; flags override it")
      ->option_text("FILE");
  options->output.add_to(command);
  return [options, flags] { return run(*options, *flags); };
}

}  // namespace

const Command explain_command{
    "explain", "why a step takes as long as it does, and what would gain most",
    "  stepcast explain examples/stories/sharded-accumulation-fsdp.toml\n"
    "  stepcast explain --model llama-3-8b --cluster dgx-h100 --nodes 4 --strategy fsdp2 "
    "--seq-len 8192",
    add};

}  // namespace stepcast::cli
