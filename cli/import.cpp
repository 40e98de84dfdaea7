// stepcast import: what users already have, read into stepcast's own files.
//
//   import model FILE   a Hugging Face config.json: layers, parameters, FLOPs; -o model.toml
//   import job FILE...  configurations of other frameworks as a scenario (import_job.cpp)

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "base/error.hpp"
#include "base/toml.hpp"
#include "cli/command.hpp"
#include "cli/import_job.hpp"
#include "cli/model_text.hpp"
#include "models/model.hpp"
#include "models/model_toml.hpp"

namespace stepcast::cli {

namespace {

struct ModelOptions {
  std::string file;
  std::string output;
};

int import_model(const ModelOptions& options) {
  const Model model = load_model(options.file);
  if (!options.output.empty() && model.architecture.family == Family::resnet) {
    throw InputError({"-o", 0, ""}, "writes transformers; a ResNet is in the catalog");
  }
  if (!options.output.empty()) write_file(options.output, model_toml(model));
  print(model_text(model));
  if (options.output.empty()) return 0;
  print(fmt::format("written: {}; use it with --model {}\n", options.output, options.output));
  return 0;
}

void add_model(CLI::App& parent, std::shared_ptr<Run> run) {
  CLI::App* command = parent.add_subcommand("model", "a Hugging Face config.json");
  command->footer("Example:\n  stepcast import model ./config.json -o model.toml");
  auto options = std::make_shared<ModelOptions>();
  command->add_option("file", options->file, "a config.json, or a directory that holds one")
      ->required();
  command->add_option("-o,--output", options->output, "write a stepcast model (TOML), for --model");
  command->callback([options, run] { *run = [options] { return import_model(*options); }; });
}

Run add(CLI::App& command) {
  auto run = std::make_shared<Run>();
  command.require_subcommand(1);
  add_model(command, run);
  add_import_job(command, run);
  return [run] { return (*run)(); };
}

}  // namespace

const Command import_command{
    "import", "read what you have: a model's config.json, job files of other frameworks",
    "  stepcast import model ./config.json -o model.toml\n"
    "  stepcast import job ds_config.json --model llama-3-8b -o scenario.toml",
    add};

}  // namespace stepcast::cli
