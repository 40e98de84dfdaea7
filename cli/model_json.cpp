#include "cli/model_text.hpp"
#include "models/architecture.hpp"

namespace stepcast::cli {

using Json = nlohmann::ordered_json;

namespace {

// A zero says that the model has none.
Json or_null(std::int64_t value) { return value > 0 ? Json(value) : Json(); }

Json layers_json(const Model& model) {
  Json list = Json::array();
  for (const LayerShape& shape : layer_shapes(model)) {
    const BlockKind none;
    const BlockKind& k = shape.kind == nullptr ? none : *shape.kind;
    list.push_back({{"first", shape.first},
                    {"count", shape.count},
                    {"parameters", shape.parameters},
                    {"block", shape.kind == nullptr ? Json() : Json(k.name)},
                    {"window", or_null(k.window)},
                    {"chunk", or_null(k.chunk)},
                    {"experts", or_null(k.experts)},
                    {"experts_per_token", or_null(k.experts_per_token)}});
  }
  return list;
}

}  // namespace

Json model_json(const Model& model) {
  const Architecture& a = model.architecture;
  const bool images = takes_images(a.family);
  const bool residual = a.family == Family::resnet;
  const auto of_transformers = [&](std::int64_t value) { return residual ? Json() : Json(value); };
  std::int64_t numbers = 0;
  for (const ModuleBuffer& buffer : model.buffers) numbers += buffer.elements();
  const std::int64_t tokens = images ? 0 : a.max_positions;
  Json j = {{"schema", "stepcast.model/1"},
            {"name", model.name},
            {"source", model.source},
            {"family", to_string(a.family)},
            {"parameters", model.parameter_elements()},
            {"active_parameters", a.experts > 0 ? Json(model.active_parameter_elements()) : Json()},
            {"parameters_without_heads",
             a.family == Family::bert ? Json(parameters_without_heads(model)) : Json()},
            {"tensors", model.parameters.size()},
            {"buffers", model.buffers.size()},
            {"buffer_numbers", numbers},
            {"layers", a.layers},
            {"stages", residual ? Json(a.stages) : Json()},
            {"bottleneck", residual ? Json(a.bottleneck) : Json()},
            {"hidden", a.hidden},
            {"heads", of_transformers(a.heads)},
            {"head_size", of_transformers(a.head_size)},
            {"kv_heads", of_transformers(a.kv_heads)},
            {"ffn_hidden", of_transformers(a.ffn_hidden)},
            {"experts", or_null(a.experts)},
            {"experts_per_token", or_null(a.experts_per_token)},
            {"vocabulary", images ? Json() : Json(a.vocabulary)},
            {"max_seq_len", or_null(tokens)},
            {"tied_embeddings", images ? Json() : Json(a.tied_embeddings)},
            {"image_size", images ? Json(a.image_size) : Json()},
            {"patch_size", images ? or_null(a.patch_size) : Json()},
            {"classes", images ? Json(a.classes) : Json()}};
  j["flops_per_sample"] = images ? Json(model_flops_per_sample(model, {})) : Json();
  j["flops_per_token"] = tokens > 0 ? Json(model_flops_per_token(model, tokens)) : Json();
  j["layer_shapes"] = layers_json(model);
  j["approximations"] = model.approximations;
  return j;
}

}  // namespace stepcast::cli
