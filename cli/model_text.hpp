#pragma once
// A model as `stepcast show model` and `stepcast import model` print it, and as JSON.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/composition.hpp"
#include "models/model.hpp"

namespace stepcast::cli {

// Layers of one shape, at the first that has it.
struct LayerShape {
  std::string first;  // "layers.0"
  int count = 0;
  std::int64_t parameters = 0;      // of each
  const BlockKind* kind = nullptr;  // of a composed model's blocks; points into the model
};
std::vector<LayerShape> layer_shapes(const Model& model);

// Of BERT: without its pooler and the heads that it is trained with.
std::int64_t parameters_without_heads(const Model& model);

std::string model_text(const Model& model);
nlohmann::ordered_json model_json(const Model& model);  // schema "stepcast.model/1"

}  // namespace stepcast::cli
