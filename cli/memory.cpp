// stepcast memory: what each strategy holds on a GPU, side by side.

#include <memory>

#include "cli/command.hpp"
#include "cli/scenario_flags.hpp"
#include "sim/forecast/memory_comparison.hpp"

namespace stepcast::cli {

namespace {

struct Options {
  std::string file;
  std::string load;
  bool json = false;
};

int memory(const Options& options, const ScenarioFlags& flags) {
  Scenario scenario = flags.read();
  if (!options.file.empty())
    scenario = merged(only_compared(read_scenario(options.file)), scenario);
  std::optional<LoadMode> load;
  if (!options.load.empty()) load = parse_load_mode(options.load);
  const MemoryComparison comparison = memory_comparison(scenario, load);
  print(options.json ? to_json(comparison) : to_text(comparison));
  return 0;
}

Run add(CLI::App& command) {
  auto options = std::make_shared<Options>();
  auto flags = std::make_shared<ScenarioFlags>(command, compared_keys());
  command
      .add_option("scenario", options->file,
                  "scenario file in TOML; flags override it, its strategy and engine do not count")
      ->option_text("FILE");
  command
      .add_option("--load", options->load,
                  "host memory at load: every, rank0, meta (default: all three)")
      ->option_text("NAME")
      ->group("Model");
  command.add_flag("--json", options->json, "print JSON, schema stepcast.memory/1")
      ->group("Output");
  return [options, flags] { return memory(*options, *flags); };
}

}  // namespace

const Command memory_command{
    "memory", "memory of all strategies side by side, textbook and as it runs",
    "  stepcast memory --params 7e9 --gpus 8\n"
    "  stepcast memory --model llama-2-7b --cluster dgx-h100 --checkpointing full\n"
    "  stepcast memory --params 70e9 --gpus 64 --load every",
    add};

}  // namespace stepcast::cli
