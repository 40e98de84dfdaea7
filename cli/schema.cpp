// stepcast schema: the JSON Schema of a scenario and of everything that --json prints.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "base/embedded.hpp"
#include "base/error.hpp"
#include "cli/command.hpp"
#include "sim/forecast/scenario_schema.hpp"

namespace stepcast::embedded {
std::span<const File> schemas();  // docs/schemas
}

namespace stepcast::cli {

namespace {

struct Schema {
  const char* name;  // "forecast/1", file forecast-1.schema.json
  const char* printed_by;
};

constexpr Schema known[] = {{"scenario/1", "a scenario file, read by simulate, advise, run, ..."},
                            {"forecast/1", "simulate --json, run --json"},
                            {"tables/1", "simulate --params N --json"},
                            {"memory/1", "memory --json"},
                            {"volume/1", "volume --json"},
                            {"advice/1", "advise --json"},
                            {"sweep/1", "sweep --json, results --json"},
                            {"tune/1", "tune --json"},
                            {"plan/1", "plan --json"},
                            {"explain/1", "explain --json"},
                            {"compare/1", "compare --json"},
                            {"train/1", "run --compute train --json"},
                            {"validation/1", "validate --json"},
                            {"validation-sweep/1", "validate --sweep ... --json"},
                            {"accuracy/1", "validate --published --json"},
                            {"trace-summary/1", "trace summary --json"},
                            {"trace-comparison/1", "trace compare --json"},
                            {"list/1", "list --json"},
                            {"model/1", "show model NAME --json"},
                            {"machine/1", "show machine NAME --json"},
                            {"gpu/1", "show gpu NAME --json"},
                            {"collectives/1", "collectives --json"},
                            {"nccl-prediction/1", "nccl predict --json"},
                            {"nccl-comparison/1", "nccl compare LOG --json"},
                            {"nccl-published/1", "nccl compare --published --json"},
                            {"doctor/1", "doctor --json"}};

std::string text_of(std::string name) {
  if (name == "scenario/1") return scenario_schema();
  name[name.find('/')] = '-';
  for (const embedded::File& file : embedded::schemas()) {
    if (file.name == name + ".schema.json") return std::string(file.text);
  }
  STEPCAST_ASSERT(false, "no schema of " + name);
}

int go(std::string name) {
  if (name.empty()) {
    std::string out;
    for (const Schema& each : known) {
      out += fmt::format("{:<34}{}\n", fmt::format("stepcast.{}", each.name), each.printed_by);
    }
    print(out);
    return 0;
  }
  const std::string prefix = "stepcast.";
  if (name.starts_with(prefix)) name = name.substr(prefix.size());
  std::vector<std::string> names;
  for (const Schema& each : known) {
    const std::string full = each.name;
    if (name == full || name == full.substr(0, full.find('/'))) {
      print(text_of(full));
      return 0;
    }
    names.push_back(full);
  }
  throw not_accepted({.file = "name", .line = 0, .key = ""}, name, names);
}

Run add(CLI::App& command) {
  auto name = std::make_shared<std::string>();
  command.add_option("name", *name, "which one, as forecast/1 (default: a list of all)")
      ->option_text("NAME");
  return [name] { return go(*name); };
}

}  // namespace

const Command schema_command{"schema", "JSON Schemas of scenario files and of what --json prints",
                             "  stepcast schema\n"
                             "  stepcast schema scenario > scenario.schema.json",
                             add};

}  // namespace stepcast::cli
