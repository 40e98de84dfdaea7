// stepcast memory: what each strategy holds on a GPU, side by side.

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>

#include "cli/comparison.hpp"
#include "sim/forecast/memory_comparison.hpp"

namespace stepcast::cli {

namespace {

Run add(CLI::App& command) {
  auto asked = std::make_shared<ComparisonCommand>(command, "stepcast.memory/1");
  auto load = std::make_shared<std::string>();
  command
      .add_option("--load", *load, "host memory at load: every, rank0, meta (default: all three)")
      ->option_text("NAME")
      ->group("Model");
  return [asked, load] {
    const Scenario scenario = asked->scenario();
    std::optional<LoadMode> mode;
    if (!load->empty()) mode = parse_load_mode(*load);
    return asked->show(memory_comparison(scenario, mode));
  };
}

}  // namespace

const Command memory_command{
    "memory", "memory of all strategies side by side, textbook and as it runs",
    "  stepcast memory --params 7e9 --gpus 8\n"
    "  stepcast memory --model llama-2-7b --cluster dgx-h100 --checkpointing full\n"
    "  stepcast memory --params 70e9 --gpus 64 --load every",
    add};

}  // namespace stepcast::cli
