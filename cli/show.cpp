// stepcast show: one model, machine, GPU or profile, with where its figures come from.

#include <fmt/format.h>

#include <memory>

#include "base/error.hpp"
#include "base/suggestion.hpp"
#include "cli/command.hpp"
#include "cli/model_text.hpp"
#include "models/model.hpp"
#include "sim/kernels/kernel_cost.hpp"
#include "sim/report/format.hpp"
#include "topologies/describe.hpp"
#include "topologies/topology.hpp"

namespace stepcast::cli {

namespace {

std::string model_named(const std::string& name) { return model_text(load_model(name)); }

// What the kernel models say of the part, and what each of a few kernels of a step rests on.
std::string gpu_text(const std::string& name) {
  const Gpu gpu = load_gpu(name);
  const KernelFigures figures = figures_of(gpu);
  const KernelModel model(gpu, load_profile("pytorch-eager"));
  const Dtype dtype = gpu.peak_bf16 ? Dtype::bf16 : Dtype::fp16;
  std::string text =
      describe(gpu) +
      fmt::format(
          "kernels: family {}; figures of {}; long products reach {} of the dense peak, memory {} "
          "of "
          "the bandwidth ({})\n",
          figures.family->name,
          figures.own_gemm ? "its own measurements" : figures.family->reference + "'s, scaled",
          percent(long_product_fraction(figures.gemm)), percent(figures.memory_fraction),
          figures.family->source);
  const auto add = [&](const std::string& what, const Kernel& kernel) {
    const KernelCost cost = model.cost(kernel);
    const double flops = hardware_flops(kernel);
    const double bytes = static_cast<double>(kernel.bytes_read + kernel.bytes_written);
    text += fmt::format("  {:<40} {:>9.1f} us {:>15}  {}\n", what, cost.seconds * 1e6,
                        flops > 0 ? fmt::format("{:.0f} TFLOP/s", flops / cost.seconds / 1e12)
                                  : fmt::format("{:.0f} GB/s", bytes / cost.seconds / 1e9),
                        to_string(cost.basis));
  };
  text += fmt::format("in a step, {} (pytorch-eager):\n", to_string(dtype));
  add("product 8,192 x 4,096 x 4,096", gemm("g", dtype, 8192, 4096, 4096));
  add("product 8,192 x 14,336 x 4,096", gemm("g", dtype, 8192, 14336, 4096));
  add("product 1,024 x 1,024 x 1,024", gemm("g", dtype, 1024, 1024, 1024));
  for (const KernelKind kind : {KernelKind::attention_forward, KernelKind::attention_backward}) {
    add(kind == KernelKind::attention_forward ? "attention 8,192, 32 heads of 128, forward"
                                              : "attention, its backward",
        attention("a", kind, dtype, 1, 32, 8, 8192, 8192, 128, true));
  }
  add("memory, 1 GB read, 1 GB written", memory_bound("m", dtype, 1'000'000'000, 1'000'000'000));
  return text;
}

std::string machine_text(const std::string& name) { return describe(load_machine(name)); }

struct Kind {
  const char* name;
  std::string (*text)(const std::string& name);
  std::vector<std::string> (*names)();
};
constexpr Kind kinds[] = {{"model", model_named, catalog_models},
                          {"machine", machine_text, catalog_machines},
                          {"gpu", gpu_text, catalog_gpus}};

// A name alone, whatever it names. No two kinds share one.
int show_named(const std::string& name) {
  std::vector<std::string> accepted;
  for (const Kind& kind : kinds) {
    for (const std::string& known : kind.names()) {
      if (known == name) {
        print(kind.text(name));
        return 0;
      }
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

int show(const std::string& what, const std::string& name) {
  if (name.empty()) return show_named(what);
  std::vector<std::string> accepted;
  for (const Kind& kind : kinds) {
    accepted.push_back(kind.name);
    if (what != kind.name) continue;
    print(kind.text(name));
    return 0;
  }
  throw not_accepted({.file = "show", .line = 0, .key = ""}, what, accepted);
}

Run add(CLI::App& command) {
  auto what = std::make_shared<std::string>();
  auto name = std::make_shared<std::string>();
  command.add_option("what", *what, "model, machine or gpu; or a catalog name alone")->required();
  command.add_option("name", *name, "catalog name, or a file");
  return [what, name] { return show(*what, *name); };
}

}  // namespace

const Command show_command{
    "show", "one model, machine or GPU, with its sources",
    "  stepcast show dgx-h100\n  stepcast show model llama-3-8b\n  stepcast show machine mine.toml",
    add};

}  // namespace stepcast::cli
