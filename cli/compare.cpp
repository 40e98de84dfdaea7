// stepcast compare: two scenarios, or one on two machines, and where the difference comes from.

#include "sim/explain/compare.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "base/error.hpp"
#include "base/toml.hpp"
#include "cli/command.hpp"
#include "cli/document_output.hpp"
#include "cli/scenario_flags.hpp"
#include "topologies/topology.hpp"

namespace stepcast::cli {

namespace {

struct Options {
  std::string a, b, scenario;
  DocumentOutput output{.kind = "compare"};
};

// A catalog name, or a file that begins as a machine does.
bool is_machine(const std::string& word) {
  const std::vector<std::string> names = catalog_machines();
  if (std::find(names.begin(), names.end(), word) != names.end()) return true;
  if (!word.ends_with(".toml")) {
    std::vector<std::string> accepted = names;
    accepted.emplace_back("a scenario file (.toml)");
    throw not_accepted({.file = "compare", .line = 0, .key = ""}, word, accepted);
  }
  return TomlTable::from_file(word).has("full_name");
}

Scenario side(const std::string& word, bool machine, const Options& options,
              const ScenarioFlags& flags) {
  if (!machine) return flags.read(word);
  Scenario s = flags.read(options.scenario);
  s.cluster = word;
  s.said["cluster"] = {.file = word, .line = 0, .key = ""};
  if (word.ends_with(".toml")) s.said["cluster"].file = "--cluster";  // from where one stands
  return s;
}

int run(const Options& options, const ScenarioFlags& flags) {
  options.output.check();
  const bool machine_a = is_machine(options.a), machine_b = is_machine(options.b);
  const Scenario given = flags.read();
  if (machine_a != machine_b) {
    throw InputError({.file = "compare", .line = 0, .key = ""},
                     "'" + options.a + "' and '" + options.b +
                         "' are a machine and a scenario; accepted: two of one kind");
  }
  if (machine_a && given.cluster) {
    throw InputError(given.where("cluster"), "the machines are named already; accepted: without");
  }
  if (!machine_a && !options.scenario.empty()) {
    throw InputError({.file = "--scenario", .line = 0, .key = ""},
                     "applies to two machines; accepted: without, two scenarios are given");
  }
  if (given.params) {
    throw InputError(given.where("params"), "a step has a model; accepted: --model");
  }
  const StepComparison comparison =
      compare_steps(side(options.a, machine_a, options, flags),
                    side(options.b, machine_b, options, flags), options.a, options.b);
  options.output.show(comparison);
  return 0;
}

Run add(CLI::App& command) {
  auto options = std::make_shared<Options>();
  auto flags = std::make_shared<ScenarioFlags>(command);
  command.add_option("a", options->a, "scenario file, or machine")->required();
  command.add_option("b", options->b, "the other one; flags hold for both")->required();
  command.add_option("--scenario", options->scenario, "what two machines run")->option_text("FILE");
  options->output.add_to(command);
  return [options, flags] { return run(*options, *flags); };
}

}  // namespace

const Command compare_command{
    "compare", "two scenarios or machines side by side, and where the difference comes from",
    "  stepcast compare dgx-a100 dgx-h100 --model llama-3-8b --seq-len 4096 --strategy fsdp2 \\\n"
    "    --nodes 4 --checkpointing full\n"
    "  stepcast compare examples/stories/hsdp-or-fsdp-fsdp.toml "
    "examples/stories/hsdp-or-fsdp-hsdp.toml",
    add};

}  // namespace stepcast::cli
