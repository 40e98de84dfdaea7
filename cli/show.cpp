// stepcast show: one model, machine, GPU or profile, with where its figures come from.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>

#include "base/error.hpp"
#include "cli/command.hpp"
#include "models/model.hpp"
#include "sim/kernels/gpu_family.hpp"
#include "sim/report/format.hpp"
#include "topologies/describe.hpp"
#include "topologies/topology.hpp"

namespace stepcast::cli {

namespace {

std::string model_text(const std::string& name) {
  const Model model = load_model(name);
  const Architecture& a = model.architecture;
  const auto number = [](std::int64_t value) { return grouped(static_cast<double>(value)); };
  std::string text = fmt::format(
      "{}: {} parameters ({}), {} tensors\n", model.name, number(model.parameter_elements()),
      human_count(static_cast<double>(model.parameter_elements())), model.parameters.size());
  if (a.family == Family::resnet) {
    text += fmt::format("residual blocks {}, {}\n", fmt::join(a.stages, " + "),
                        a.bottleneck ? "bottleneck" : "basic");
  } else {
    text +=
        fmt::format("layers {}, hidden {}, heads {} of {}, key-value heads {}, FFN {}\n", a.layers,
                    number(a.hidden), a.heads, a.head_size, a.kv_heads, number(a.ffn_hidden));
  }
  if (a.experts > 0) {
    text += fmt::format("experts {}, {} a token: {} parameters active ({})\n", a.experts,
                        a.experts_per_token, number(model.active_parameter_elements()),
                        human_count(static_cast<double>(model.active_parameter_elements())));
  }
  if (takes_images(a.family)) {
    text += fmt::format("images of {} pixels a side{}, {} classes\n", a.image_size,
                        a.patch_size > 0 ? fmt::format(" in patches of {}", a.patch_size) : "",
                        number(a.classes));
  } else {
    text += fmt::format("vocabulary {}, {} positions, embeddings {}\n", number(a.vocabulary),
                        number(a.max_positions), a.tied_embeddings ? "tied" : "not tied");
  }
  if (!model.buffers.empty()) {
    std::int64_t elements = 0;
    for (const ModuleBuffer& buffer : model.buffers) elements += buffer.elements();
    text += fmt::format("{} buffers that are not trained, {} numbers\n", model.buffers.size(),
                        number(elements));
  }
  int last = -1;  // layers of one shape follow each other
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    const Layer& layer = model.layers[i];
    if (layer.shape_class == last) continue;
    last = layer.shape_class;
    std::size_t same = i;
    while (same + 1 < model.layers.size() && model.layers[same + 1].shape_class == last) ++same;
    text += fmt::format("  {:<24} {:>4} x {:>15} parameters\n", layer.name.str(), same - i + 1,
                        number(model.parameter_elements(layer)));
  }
  const std::int64_t s = a.max_positions;
  if (takes_images(a.family)) {
    text += fmt::format("training: {:.3f} GFLOP an image, 3 times a forward's\n",
                        model_flops_per_sample(model, {}) / 1e9);
  } else if (s > 0) {
    text += fmt::format("training: {:.3f} GFLOP a token at {} tokens a sequence\n",
                        model_flops_per_token(model, s) / 1e9, number(s));
  }
  return text + "source: " + model.source + "\n";
}

std::string gpu_text(const std::string& name) {
  const Gpu gpu = load_gpu(name);
  const GpuFamily& family = family_of(gpu);
  return describe(gpu) +
         fmt::format(
             "kernels: family {}, {}; matrix products reach {} of the dense peak, memory {} "
             "of the bandwidth ({})\n",
             family.name, to_string(provenance_of(family, gpu)),
             percent(sustained_fraction(family, gpu)), percent(family.memory_fraction),
             family.source);
}

std::string machine_text(const std::string& name) { return describe(load_machine(name)); }

struct Kind {
  const char* name;
  std::string (*text)(const std::string& name);
};
constexpr Kind kinds[] = {{"model", model_text}, {"machine", machine_text}, {"gpu", gpu_text}};

int show(const std::string& what, const std::string& name) {
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
  command.add_option("what", *what, "model, machine or gpu")->required();
  command.add_option("name", *name, "catalog name, or a file")->required();
  return [what, name] { return show(*what, *name); };
}

}  // namespace

const Command show_command{"show", "one model, machine or GPU, with its sources",
                           "  stepcast show machine dgx-h100\n  stepcast show model llama-3-8b",
                           add};

}  // namespace stepcast::cli
