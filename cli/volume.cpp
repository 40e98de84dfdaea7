// stepcast volume: what each strategy sends in a step, side by side.

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/comparison.hpp"
#include "sim/forecast/volume_comparison.hpp"

namespace stepcast::cli {

namespace {

Run add(CLI::App& command) {
  auto asked = std::make_shared<ComparisonCommand>(command, "stepcast.volume/1");
  return [asked] { return asked->show(volume_comparison(asked->scenario())); };
}

}  // namespace

const Command volume_command{"volume", "bytes that all strategies send, textbook and as it runs",
                             "  stepcast volume --params 7e9 --gpus 8\n"
                             "  stepcast volume --model llama-2-7b --cluster dgx-h100 --nodes 4",
                             add};

}  // namespace stepcast::cli
