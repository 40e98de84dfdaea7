// Which layers share one FSDP unit.
//
//   block       root {embedding or stem, norm, head}; each block
//   torchtitan  {embedding or stem}; each block; {norm, head} kept after forward; nothing is left
//   for root
//
// Example, two blocks: block gives root, layers.0, layers.1; torchtitan gives embedding, layers.0,
// layers.1, norm_head. Source: torchtitan's parallelize_llama.py (apply_fsdp), PyTorch's
// fully_shard examples. Tested by tests/unit/models/wrap_units_test.cpp.

#include "base/error.hpp"
#include "models/model.hpp"

namespace stepcast {
namespace {

void add_layer(WrapUnit& unit, const Model& model, int index) {
  const Layer& layer = model.layers[static_cast<std::size_t>(index)];
  unit.layers.push_back(index);
  for (int i = 0; i < layer.parameter_count; ++i) {
    unit.parameters.push_back(layer.first_parameter + i);
  }
}

bool is_block(const Layer& layer) { return layer.kind == LayerKind::block; }

bool has_tied_head(const Model& model) {
  for (const Layer& layer : model.layers) {
    if (layer.tied_parameter >= 0) return true;
  }
  return false;
}

void add_blocks(std::vector<WrapUnit>& units, const Model& model) {
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    if (!is_block(model.layers[i])) continue;
    WrapUnit& unit = units.emplace_back();
    unit.name = model.layers[i].name;
    add_layer(unit, model, static_cast<int>(i));
  }
}

std::vector<WrapUnit> by_block(const Model& model) {
  std::vector<WrapUnit> units;
  units.reserve(model.layers.size() + 1);
  WrapUnit root;
  root.name = "root";
  root.root = true;
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    if (!is_block(model.layers[i])) add_layer(root, model, static_cast<int>(i));
  }
  if (!root.layers.empty()) units.push_back(std::move(root));
  add_blocks(units, model);
  return units;
}

std::vector<WrapUnit> as_torchtitan(const Model& model) {
  if (has_tied_head(model)) {
    throw InputError({"", 0, "wrap"},
                     "torchtitan puts embedding and head in units of their own, which " +
                         model.name + " with its tied head has not; accepted: block");
  }
  std::vector<WrapUnit> units;
  units.reserve(model.layers.size() + 1);
  WrapUnit last;
  last.name = "norm_head";
  last.keep_after_forward = true;
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    const Layer& layer = model.layers[i];
    if (layer.kind == LayerKind::embedding || layer.kind == LayerKind::stem) {
      WrapUnit& unit = units.emplace_back();
      unit.name = layer.name;
      add_layer(unit, model, static_cast<int>(i));
    } else if (!is_block(layer)) {
      add_layer(last, model, static_cast<int>(i));
    }
  }
  add_blocks(units, model);
  if (!last.layers.empty()) units.push_back(std::move(last));
  return units;
}

}  // namespace

std::vector<WrapUnit> wrap_units(const Model& model, WrapPolicy policy) {
  switch (policy) {
    case WrapPolicy::block: return by_block(model);
    case WrapPolicy::torchtitan: return as_torchtitan(model);
  }
  STEPCAST_ASSERT(false, "a wrap policy without units");
}

}  // namespace stepcast
