#include "cli/model_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/report/format.hpp"

namespace stepcast::cli {

namespace {

std::string number(std::int64_t value) { return grouped(static_cast<double>(value)); }

std::string layers_text(const Model& model) {
  std::string text;
  for (const LayerShape& shape : layer_shapes(model)) {
    std::string kind;
    if (shape.kind != nullptr) {
      const BlockKind& k = *shape.kind;
      kind = "  " + k.name;
      if (k.window > 0) kind += fmt::format(", window {}", number(k.window));
      if (k.chunk > 0) kind += fmt::format(", chunks of {}", number(k.chunk));
      if (k.experts > 0)
        kind += fmt::format(", {} experts, {} a token", k.experts, k.experts_per_token);
    }
    text += fmt::format("  {:<24} {:>4} x {:>15} parameters{}\n", shape.first, shape.count,
                        number(shape.parameters), kind);
  }
  return text;
}

}  // namespace

std::vector<LayerShape> layer_shapes(const Model& model) {
  const Architecture& a = model.architecture;
  std::vector<int> count(static_cast<std::size_t>(model.shape_classes), 0);
  for (const Layer& layer : model.layers) ++count[static_cast<std::size_t>(layer.shape_class)];
  std::vector<LayerShape> shapes;
  for (const Layer& layer : model.layers) {
    int& same = count[static_cast<std::size_t>(layer.shape_class)];
    if (same == 0) continue;
    LayerShape& shape = shapes.emplace_back();
    shape.first = layer.name.str();
    shape.count = same;
    shape.parameters = model.parameter_elements(layer);
    if (a.composition && layer.kind == LayerKind::block) {
      shape.kind = &a.composition->kinds[static_cast<std::size_t>(layer.block_kind)];
    }
    same = 0;
  }
  return shapes;
}

std::int64_t parameters_without_heads(const Model& model) {
  const Architecture& a = model.architecture;
  std::int64_t without = 0;
  for (const Layer& layer : model.layers) {
    if (layer.kind != LayerKind::head) without += model.parameter_elements(layer);
  }
  return a.next_sentence ? without + a.hidden * a.hidden + a.hidden : without;
}

std::string model_text(const Model& model) {
  const Architecture& a = model.architecture;
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
  if (a.family == Family::bert) {
    text += fmt::format("without the heads that it is trained with: {} parameters\n",
                        number(parameters_without_heads(model)));
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
                        a.max_positions > 0 ? number(a.max_positions) : "any number of",
                        a.tied_embeddings ? "tied" : "not tied");
  }
  if (!model.buffers.empty()) {
    std::int64_t elements = 0;
    for (const ModuleBuffer& buffer : model.buffers) elements += buffer.elements();
    text += fmt::format("{} buffers that are not trained, {} numbers\n", model.buffers.size(),
                        number(elements));
  }
  text += layers_text(model);
  const std::int64_t s = a.max_positions;
  if (takes_images(a.family)) {
    text += fmt::format("training: {:.3f} GFLOP an image, 3 times a forward's\n",
                        model_flops_per_sample(model, {}) / 1e9);
  } else if (s > 0) {
    text += fmt::format("training: {:.3f} GFLOP a token at {} tokens a sequence\n",
                        model_flops_per_token(model, s) / 1e9, number(s));
  }
  for (const std::string& note : model.approximations) text += "approximate: " + note + "\n";
  return text + "source: " + model.source + "\n";
}

}  // namespace stepcast::cli
