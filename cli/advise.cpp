// stepcast advise: which data-parallel strategy, and the numbers that decide it.

#include "sim/advise/advise.hpp"

#include <CLI/CLI.hpp>
#include <memory>

#include "base/error.hpp"
#include "cli/command.hpp"
#include "cli/scenario_flags.hpp"

namespace stepcast::cli {

namespace {

struct Options {
  std::string file;
  bool json = false;
};

int run(const Options& options, const ScenarioFlags& flags) {
  const Scenario scenario = flags.read(options.file);
  const Advice advice = advise(scenario);
  print(options.json ? to_json(advice) : to_text(advice));
  if (!advice.feasible) throw InfeasibleError(advice.answer);
  return 0;
}

Run add(CLI::App& command) {
  auto options = std::make_shared<Options>();
  auto flags = std::make_shared<ScenarioFlags>(command);
  command.add_option("scenario", options->file, "scenario file in TOML; flags override it")
      ->option_text("FILE");
  command.add_flag("--json", options->json, "print JSON, schema stepcast.advice/1")
      ->group("Output");
  return [options, flags] { return run(*options, *flags); };
}

}  // namespace

const Command advise_command{
    "advise", "say which strategy to use, and why",
    "  stepcast advise --model llama-3-8b --cluster dgx-h100 --nodes 16 --seq-len 8192\n"
    "  stepcast advise --model gpt2-xl --cluster dgx-a100-40gb --micro-batch 8",
    add};

}  // namespace stepcast::cli
