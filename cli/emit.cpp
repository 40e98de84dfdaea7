// stepcast emit FORMAT: a scenario as the configuration of the framework that runs it. `import job
// --emit` does the same with job files, `tune --emit` with what it found.

#include "cli/emit.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/toml.hpp"
#include "cli/command.hpp"
#include "cli/scenario_flags.hpp"
#include "sim/jobs/emit.hpp"

namespace stepcast::cli {

namespace {

struct Options {
  std::string format, file, output;
};

int run(const Options& o, const ScenarioFlags& flags) {
  const std::vector<std::string>& known = jobs::emit_formats();
  if (std::find(known.begin(), known.end(), o.format) == known.end()) {
    throw not_accepted({.file = "format", .line = 0, .key = ""}, o.format, known);
  }
  const std::string text = emitted(flags.read(o.file), o.format);
  if (o.output.empty()) {
    print(text);
  } else {
    write_file(o.output, text);
  }
  return 0;
}

Run add(CLI::App& command) {
  auto o = std::make_shared<Options>();
  auto flags = std::make_shared<ScenarioFlags>(command);
  command.add_option("format", o->format, "deepspeed, accelerate or torchtitan")
      ->required()
      ->option_text("FORMAT");
  command.add_option("scenario", o->file, "scenario file in TOML; flags override it")
      ->option_text("FILE");
  command.add_option("-o,--output", o->output, "write it here (default: stdout)")
      ->option_text("FILE")
      ->group("Output");
  return [o, flags] { return run(*o, *flags); };
}

}  // namespace

std::string emitted(const Scenario& scenario, const std::string& format) {
  const jobs::Emitted out = jobs::emitted(scenario, format);
  for (const std::string& key : out.left_out) {
    note(fmt::format("{} cannot say {}", format, key));
  }
  return out.text;
}

const Command emit_command{
    "emit", "write a scenario as the configuration of the framework that runs it",
    "  stepcast emit torchtitan examples/llama-3-8b-fsdp2-16-nodes.toml > train.toml\n"
    "  stepcast emit deepspeed --model gpt2 --strategy zero2 --gpus 8 -o ds_config.json",
    add};

}  // namespace stepcast::cli
