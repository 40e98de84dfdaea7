// stepcast list: what is known by name.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

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
  std::size_t width = 17;
  for (const std::string& name : catalog_models()) width = std::max(width, name.size() + 1);
  for (const std::string& name : catalog_models()) {
    const Model model = load_model(name);
    const Architecture& a = model.architecture;
    text += fmt::format("{}{:>9} parameters, {:>3} {} hidden {:>6}, ", padded(name, width),
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

constexpr StrategyKind strategy_kinds[] = {
    StrategyKind::dp,    StrategyKind::ddp,   StrategyKind::zero1, StrategyKind::zero2,
    StrategyKind::zero3, StrategyKind::fsdp1, StrategyKind::fsdp2, StrategyKind::hsdp};

std::string strategies() {
  std::string text;
  for (const StrategyKind kind : strategy_kinds) {
    text += fmt::format("{:<8} precision {}\n", to_string(kind), default_precision(kind));
  }
  return text;
}

using Json = nlohmann::ordered_json;

Json models_json() {
  Json list = Json::array();
  for (const std::string& name : catalog_models()) {
    const Model model = load_model(name);
    const Architecture& a = model.architecture;
    const bool images = takes_images(a.family);
    list.push_back({{"name", name},
                    {"parameters", model.parameter_elements()},
                    {"layers", a.layers},
                    {"hidden", a.hidden},
                    {"max_seq_len", images ? Json() : Json(a.max_positions)},
                    {"vocabulary", images ? Json() : Json(a.vocabulary)},
                    {"image_size", images ? Json(a.image_size) : Json()},
                    {"experts", a.experts > 0 ? Json(a.experts) : Json()}});
  }
  return list;
}

Json gpus_json() {
  Json list = Json::array();
  for (const std::string& name : catalog_gpus()) {
    const Gpu gpu = load_gpu(name);
    const auto peak = [](const std::optional<double>& flops) {
      return flops ? Json(*flops / 1e12) : Json();
    };
    list.push_back({{"name", name},
                    {"full_name", gpu.full_name},
                    {"memory_bytes", gpu.memory_bytes},
                    {"memory_gb_per_s", gpu.memory_gbps},
                    {"bf16_tflops", peak(gpu.peak_bf16)},
                    {"fp16_tflops", peak(gpu.peak_fp16)},
                    {"fp8_tflops", peak(gpu.peak_fp8)}});
  }
  return list;
}

Json machines_json() {
  Json list = Json::array();
  for (const std::string& name : catalog_machines()) {
    const Machine machine = load_machine(name);
    list.push_back({{"name", name},
                    {"full_name", machine.full_name},
                    {"gpus", machine.gpus.size()},
                    {"gpu", machine.gpu.name},
                    {"nics", machine.nics.size()},
                    {"network", machine.network}});
  }
  return list;
}

Json profiles_json() {
  Json list = Json::array();
  for (const std::string& name : catalog_profiles()) {
    list.push_back({{"name", name}, {"description", load_profile(name).description}});
  }
  return list;
}

Json strategies_json() {
  Json list = Json::array();
  for (const StrategyKind kind : strategy_kinds) {
    list.push_back({{"name", to_string(kind)}, {"precision", default_precision(kind)}});
  }
  return list;
}

struct Listing {
  const char* name;
  std::string (*text)();
  Json (*json)();
};
constexpr Listing listings[] = {{"models", models, models_json},
                                {"gpus", gpus, gpus_json},
                                {"machines", machines, machines_json},
                                {"profiles", profiles, profiles_json},
                                {"strategies", strategies, strategies_json}};

std::vector<std::string> listing_names() {
  std::vector<std::string> names;
  for (const Listing& listing : listings) names.push_back(listing.name);
  return names;
}

int list(const std::string& what, bool json) {
  for (const Listing& listing : listings) {
    if (what != listing.name) continue;
    if (json) {
      const Json document = {
          {"schema", "stepcast.list/1"}, {"what", what}, {"list", listing.json()}};
      print(document.dump(2) + "\n");
    } else {
      print(listing.text());
    }
    return 0;
  }
  throw not_accepted({.file = "list", .line = 0, .key = ""}, what, listing_names());
}

Run add(CLI::App& command) {
  auto what = std::make_shared<std::string>();
  command.add_option("what", *what, "models, gpus, machines, profiles or strategies")->required();
  auto json = std::make_shared<bool>(false);
  command.add_flag("--json", *json, "print JSON, schema stepcast.list/1");
  return [what, json] { return list(*what, *json); };
}

}  // namespace

const Command list_command{"list", "what is known by name",
                           "  stepcast list machines\n  stepcast list models", add};

}  // namespace stepcast::cli
