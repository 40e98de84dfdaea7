// stepcast list: what is known by name.

#include <fmt/format.h>

#include <memory>

#include "base/error.hpp"
#include "cli/command.hpp"
#include "models/model.hpp"
#include "sim/kernels/profile.hpp"
#include "sim/report/format.hpp"
#include "sim/strategies/strategy.hpp"
#include "topologies/topology.hpp"

namespace stepcast::cli {

namespace {

std::string models() {
  std::string text;
  for (const std::string& name : catalog_models()) {
    const Model model = load_model(name);
    const Architecture& a = model.architecture;
    text += fmt::format("{:<16} {:>9} parameters, {:>3} {} hidden {:>6}, ", name,
                        human_count(static_cast<double>(model.parameter_elements())), a.layers,
                        a.family == Family::resnet ? "blocks," : "layers,",
                        grouped(static_cast<double>(a.hidden)));
    text += takes_images(a.family)
                ? fmt::format("images of {}, classes {}\n", a.image_size,
                              grouped(static_cast<double>(a.classes)))
                : fmt::format("vocabulary {:>7}{}\n", grouped(static_cast<double>(a.vocabulary)),
                              a.experts > 0 ? fmt::format(", {} experts, {} a token", a.experts,
                                                          a.experts_per_token)
                                            : "");
  }
  return text;
}

std::string gpus() {
  std::string text;
  for (const std::string& name : catalog_gpus()) {
    const Gpu gpu = load_gpu(name);
    const double peak = gpu.peak_bf16.value_or(gpu.peak_fp16.value_or(0)) / 1e12;
    text += fmt::format("{:<18} {:<40} {:>10} {:>8} GB/s {:>8} TFLOP/s {} dense\n", name,
                        gpu.full_name, human_gib(gpu.memory_bytes), grouped(gpu.memory_gbps),
                        grouped(peak, 1), gpu.peak_bf16 ? "bf16" : "fp16");
  }
  return text;
}

std::string machines() {
  std::string text;
  for (const std::string& name : catalog_machines()) {
    const Machine machine = load_machine(name);
    text += fmt::format("{:<26} {:>2} x {:<18} {:>2} NIC{} {:<12} {}\n", name, machine.gpus.size(),
                        machine.gpu.name, machine.nics.size(), machine.nics.size() == 1 ? " " : "s",
                        machine.network, machine.full_name);
  }
  return text;
}

std::string profiles() {
  std::string text;
  for (const std::string& name : catalog_profiles()) {
    const SoftwareProfile profile = load_profile(name);
    text += fmt::format("{:<18} {}{}\n", name, profile.description,
                        name == "pytorch-eager" ? " (default)" : "");
  }
  return text;
}

std::string strategies() {
  std::string text;
  for (const StrategyKind kind :
       {StrategyKind::dp, StrategyKind::ddp, StrategyKind::zero1, StrategyKind::zero2,
        StrategyKind::zero3, StrategyKind::fsdp1, StrategyKind::fsdp2, StrategyKind::hsdp}) {
    text += fmt::format("{:<8} precision {}\n", to_string(kind), default_precision(kind));
  }
  return text;
}

struct Listing {
  const char* name;
  std::string (*text)();
};
constexpr Listing listings[] = {{"models", models},
                                {"gpus", gpus},
                                {"machines", machines},
                                {"profiles", profiles},
                                {"strategies", strategies}};

std::vector<std::string> listing_names() {
  std::vector<std::string> names;
  for (const Listing& listing : listings) names.push_back(listing.name);
  return names;
}

int list(const std::string& what) {
  for (const Listing& listing : listings) {
    if (what != listing.name) continue;
    print(listing.text());
    return 0;
  }
  throw not_accepted({.file = "list", .line = 0, .key = ""}, what, listing_names());
}

Run add(CLI::App& command) {
  auto what = std::make_shared<std::string>();
  command.add_option("what", *what, "models, gpus, machines, profiles or strategies")->required();
  return [what] { return list(*what); };
}

}  // namespace

const Command list_command{"list", "what is known by name",
                           "  stepcast list machines\n  stepcast list models", add};

}  // namespace stepcast::cli
