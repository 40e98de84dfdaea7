// From sizes to tensors: names and registration order of the Hugging Face (gpt2, llama) and
// llm-foundry (mpt) modules, so that DDP's buckets and FSDP2's groups come out as in PyTorch.
//
//   embedding: token table, then the learned positions if any
//   blocks:    block_layout() each
//   final norm
//   head:      its own matrix, or the token table again when tied; a shared tensor is listed once
//
// Tested by tests/unit/models/counts_test.cpp.

#include <map>
#include <string>

#include "base/error.hpp"
#include "models/architecture.hpp"
#include "models/layout.hpp"
#include "models/model.hpp"

namespace stepcast {
namespace {

struct FamilyNames {
  std::string_view token_table;
  std::string_view position_table;
  std::string_view blocks;  // prefix before the block's number
  std::string_view final_norm;
};

FamilyNames names_of(Family family) {
  switch (family) {
    case Family::gpt2:
      return {"transformer.wte.weight", "transformer.wpe.weight", "transformer.h.",
              "transformer.ln_f"};
    case Family::mpt:
      return {"transformer.wte.weight", "transformer.wpe.weight", "transformer.blocks.",
              "transformer.norm_f"};
    case Family::llama: return {"model.embed_tokens.weight", "", "model.layers.", "model.norm"};
  }
  STEPCAST_ASSERT(false, "a family without names");
}

// Work classes of build_model's layers: one for each kind.
constexpr int class_of(LayerKind kind) { return static_cast<int>(kind); }

class Builder {
 public:
  Builder(const std::string& name, const Architecture& architecture)
      : names_(names_of(architecture.family)) {
    model_.name = name;
    model_.architecture = architecture;
    model_.shape_classes = 4;
  }

  Model take() && {
    const Architecture& a = model_.architecture;
    const BlockLayout layout = block_layout(a);
    const auto layers = static_cast<std::size_t>(a.layers);
    model_.parameters.reserve(layers * static_cast<std::size_t>(layout.size) + 5);
    model_.layers.reserve(layers + 3);

    open("embedding", LayerKind::embedding);
    add(names_.token_table, {a.vocabulary, a.hidden});
    if (a.learned_positions) add(names_.position_table, {a.max_positions, a.hidden});
    close();

    for (std::int64_t i = 0; i < a.layers; ++i) add_block(i, layout);

    open("norm", LayerKind::final_norm);
    text_.assign(names_.final_norm);
    text_ += ".weight";
    add(text_, {a.hidden});
    if (a.norm_bias) {
      text_.assign(names_.final_norm);
      text_ += ".bias";
      add(text_, {a.hidden});
    }
    close();

    open("head", LayerKind::head);
    if (a.tied_embeddings) {
      model_.layers.back().tied_parameter = 0;
    } else {
      add("lm_head.weight", {a.vocabulary, a.hidden});
    }
    close();
    return std::move(model_);
  }

 private:
  void add_block(std::int64_t number, const BlockLayout& layout) {
    const std::string digits = std::to_string(number);
    text_.assign("layers.");
    text_ += digits;
    open(text_, LayerKind::block);
    text_.assign(names_.blocks);
    text_ += digits;
    text_ += '.';
    const std::size_t prefix = text_.size();
    for (int i = 0; i < layout.size; ++i) {
      const Slot& slot = layout.slots[static_cast<std::size_t>(i)];
      text_.resize(prefix);
      text_ += slot.suffix;
      if (slot.columns > 0) {
        add(text_, {slot.rows, slot.columns});
      } else {
        add(text_, {slot.rows});
      }
    }
    close();
  }

  void open(std::string_view name, LayerKind kind) {
    Layer& layer = model_.layers.emplace_back();
    layer.name = Name(name);
    layer.kind = kind;
    layer.shape_class = class_of(kind);
    layer.first_parameter = static_cast<int>(model_.parameters.size());
  }

  void add(std::string_view name, std::initializer_list<std::int64_t> shape) {
    Parameter& parameter = model_.parameters.emplace_back();
    parameter.name = Name(name);
    parameter.shape = shape;
  }

  void close() {
    Layer& layer = model_.layers.back();
    layer.parameter_count = static_cast<int>(model_.parameters.size()) - layer.first_parameter;
  }

  FamilyNames names_;
  Model model_;
  std::string text_;  // reused for names: thousands of parameters, one allocation
};

}  // namespace

Model build_model(const std::string& name, const Architecture& architecture) {
  Architecture sizes = architecture;
  if (const auto problem = complete(sizes)) {
    throw InputError({name, 0, std::string(problem->field)}, problem->message);
  }
  return Builder(name, sizes).take();
}

Model model_of_tensors(const std::vector<Parameter>& parameters) {
  Model model;
  model.name = "tensors";
  model.source = "a list of tensors";
  model.parameters = parameters;
  model.layers.reserve(parameters.size());
  std::map<std::vector<std::int64_t>, int> classes;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    Layer& layer = model.layers.emplace_back();
    layer.name = parameters[i].name;
    layer.first_parameter = static_cast<int>(i);
    layer.parameter_count = 1;
    layer.shape_class =
        classes.emplace(parameters[i].shape, static_cast<int>(classes.size())).first->second;
  }
  model.shape_classes = static_cast<int>(classes.size());
  return model;
}

}  // namespace stepcast
