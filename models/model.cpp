#include "models/model.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "models/composition.hpp"

namespace stepcast {

namespace {

std::int64_t product_of(const std::vector<std::int64_t>& shape) {
  std::int64_t product = 1;
  for (const std::int64_t size : shape) product *= size;
  return product;
}

}  // namespace

std::int64_t Parameter::elements() const { return product_of(shape); }

std::int64_t ModuleBuffer::elements() const { return product_of(shape); }

std::int64_t Model::parameter_elements() const {
  std::int64_t sum = 0;
  for (const Parameter& parameter : parameters) sum += parameter.elements();
  return sum;
}

std::int64_t Model::parameter_elements(const Layer& layer) const {
  std::int64_t sum = 0;
  const auto first = static_cast<std::size_t>(layer.first_parameter);
  const auto end = first + static_cast<std::size_t>(layer.parameter_count);
  for (std::size_t at = first; at < end; ++at) {
    sum += parameters[at].elements();
  }
  return sum;
}

std::int64_t Model::active_parameter_elements() const {
  const Architecture& a = architecture;
  if (a.experts == 0) return parameter_elements();
  if (a.family == Family::composed) {
    std::int64_t sum = 0;
    for (const Layer& layer : layers) {
      sum += layer.kind == LayerKind::block
                 ? active_elements_of(
                       a.composition->kinds[static_cast<std::size_t>(layer.block_kind)], a)
                 : parameter_elements(layer);
    }
    return sum;
  }
  return parameter_elements() -
         a.layers * (a.experts - a.experts_per_token) * 3 * a.hidden * a.ffn_hidden;
}

Model share_of(Model model, int replica_gpus) {
  if (replica_gpus == 1) return model;
  for (Parameter& parameter : model.parameters) {
    std::vector<std::int64_t>& shape = parameter.shape;
    const auto whole = std::find_if(shape.begin(), shape.end(),
                                    [&](std::int64_t size) { return size % replica_gpus == 0; });
    std::int64_t& cut = whole != shape.end() ? *whole : shape.front();
    cut = ceil_div(cut, replica_gpus);
  }
  return model;
}

std::int64_t Model::input_embedding_elements() const {
  std::int64_t sum = 0;
  for (const Layer& layer : layers) {
    if (layer.kind == LayerKind::embedding) sum += parameter_elements(layer);
  }
  return sum;
}

std::string_view to_string(Checkpointing checkpointing) {
  switch (checkpointing) {
    case Checkpointing::none: return "none";
    case Checkpointing::selective: return "selective";
    case Checkpointing::selective_op: return "selective-op";
    case Checkpointing::full: return "full";
  }
  return "";
}

std::string_view to_string(Fp8Recipe recipe) {
  switch (recipe) {
    case Fp8Recipe::none: return "none";
    case Fp8Recipe::te_delayed: return "te-delayed";
    case Fp8Recipe::torchao_tensorwise: return "torchao-tensorwise";
  }
  return "";
}

std::string_view to_string(LayerKind kind) {
  switch (kind) {
    case LayerKind::embedding: return "embedding";
    case LayerKind::stem: return "stem";
    case LayerKind::block: return "block";
    case LayerKind::final_norm: return "final_norm";
    case LayerKind::head: return "head";
  }
  return "";
}

}  // namespace stepcast
