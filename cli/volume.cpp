// stepcast volume: what each strategy sends in a step, side by side.

#include <memory>

#include "cli/command.hpp"
#include "cli/scenario_flags.hpp"
#include "sim/forecast/volume_comparison.hpp"

namespace stepcast::cli {

namespace {

struct Options {
  std::string file;
  bool json = false;
};

int volume(const Options& options, const ScenarioFlags& flags) {
  Scenario scenario = flags.read();
  if (!options.file.empty())
    scenario = merged(only_compared(read_scenario(options.file)), scenario);
  const VolumeComparison comparison = volume_comparison(scenario);
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
  command.add_flag("--json", options->json, "print JSON, schema stepcast.volume/1")
      ->group("Output");
  return [options, flags] { return volume(*options, *flags); };
}

}  // namespace

const Command volume_command{"volume", "bytes that all strategies send, textbook and as it runs",
                             "  stepcast volume --params 7e9 --gpus 8\n"
                             "  stepcast volume --model llama-2-7b --cluster dgx-h100 --nodes 4",
                             add};

}  // namespace stepcast::cli
