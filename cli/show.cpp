// stepcast show: one model, machine or GPU, with where its figures come from.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "base/error.hpp"
#include "base/suggestion.hpp"
#include "cli/command.hpp"
#include "cli/gpu_kernels.hpp"
#include "cli/hardware_json.hpp"
#include "cli/json_text.hpp"
#include "cli/model_text.hpp"
#include "models/model.hpp"
#include "sim/report/format.hpp"
#include "topologies/describe.hpp"
#include "topologies/topology.hpp"

namespace stepcast::cli {

namespace {

std::string model_named(const std::string& name) { return model_text(load_model(name)); }
std::string machine_text(const std::string& name) { return describe(load_machine(name)); }

// What the kernel models say of the part, and what each of a few kernels of a step rests on.
std::string gpu_text(const std::string& name) {
  const Gpu gpu = load_gpu(name);
  const GpuKernels k = gpu_kernels(gpu);
  std::string text =
      describe(gpu) +
      fmt::format(
          "kernels: family {}; figures of {}; long products reach {} of the dense peak, memory {} "
          "of the bandwidth ({})\nin a step, {} ({}):\n",
          k.figures.family->name,
          k.figures.own_gemm ? "its own measurements" : k.figures.family->reference + "'s, scaled",
          percent(long_product_fraction(k.figures.gemm)), percent(k.figures.memory_fraction),
          k.figures.family->source, to_string(k.dtype), k.profile);
  for (const GpuKernel& kernel : k.kernels) {
    const double seconds = kernel.cost.seconds;
    text +=
        fmt::format("  {:<40} {:>9.1f} us {:>15}  {}\n", kernel.what, seconds * 1e6,
                    kernel.flops > 0 ? fmt::format("{:.0f} TFLOP/s", kernel.flops / seconds / 1e12)
                                     : fmt::format("{:.0f} GB/s", kernel.bytes / seconds / 1e9),
                    to_string(kernel.cost.basis));
  }
  return text;
}

using Json = nlohmann::ordered_json;

Json model_named_json(const std::string& name) { return model_json(load_model(name)); }
Json machine_named_json(const std::string& name) { return machine_json(load_machine(name)); }
Json gpu_named_json(const std::string& name) { return gpu_json(load_gpu(name)); }

struct Kind {
  const char* name;
  std::string (*text)(const std::string& name);
  Json (*json)(const std::string& name);
  std::vector<std::string> (*names)();
};
constexpr Kind kinds[] = {{"model", model_named, model_named_json, catalog_models},
                          {"machine", machine_text, machine_named_json, catalog_machines},
                          {"gpu", gpu_text, gpu_named_json, catalog_gpus}};

int print_one(const Kind& kind, const std::string& name, bool json) {
  print(json ? json_text(kind.json(name)) : kind.text(name));
  return 0;
}

// A name alone, whatever it names. No two kinds share one.
int show_named(const std::string& name, bool json) {
  std::vector<std::string> accepted;
  for (const Kind& kind : kinds) {
    for (const std::string& known : kind.names()) {
      if (known == name) return print_one(kind, name, json);
      accepted.push_back(known);
    }
  }
  const Where where{.file = "show", .line = 0, .key = ""};
  for (const Kind& kind : kinds) {
    if (name != kind.name) continue;
    throw InputError(where,
                     fmt::format("{} needs a name; `stepcast list {}s` has them", name, name));
  }
  throw InputError(where, fmt::format("'{}' is not known{}; accepted: a name of `stepcast list "
                                      "models`, `machines` or `gpus`, or model, machine or gpu and "
                                      "a file",
                                      name.substr(0, 80), suggestion(name, accepted)));
}

int show(const std::string& what, const std::string& name, bool json) {
  if (name.empty()) return show_named(what, json);
  std::vector<std::string> accepted;
  for (const Kind& kind : kinds) {
    accepted.push_back(kind.name);
    if (what == kind.name) return print_one(kind, name, json);
  }
  throw not_accepted({.file = "show", .line = 0, .key = ""}, what, accepted);
}

Run add(CLI::App& command) {
  auto what = std::make_shared<std::string>();
  auto name = std::make_shared<std::string>();
  command.add_option("what", *what, "model, machine or gpu; or a catalog name alone")->required();
  command.add_option("name", *name, "catalog name, or a file");
  auto json = std::make_shared<bool>(false);
  command.add_flag("--json", *json,
                   "print JSON, schema stepcast.model/1, stepcast.machine/1 or stepcast.gpu/1");
  return [what, name, json] { return show(*what, *name, *json); };
}

}  // namespace

const Command show_command{
    "show", "one model, machine or GPU, with its sources",
    "  stepcast show dgx-h100\n  stepcast show model llama-3-8b\n  stepcast show machine mine.toml",
    add};

}  // namespace stepcast::cli
