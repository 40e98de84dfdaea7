// From sizes to tensors: names and registration order of the Hugging Face (gpt2, llama, mixtral,
// bert, vit) and llm-foundry (mpt) modules, so that DDP's buckets and FSDP2's groups come out as in
// PyTorch. ResNets are built in resnet.cpp.
//
//   embedding: token table, then the learned positions if any
//              bert: tokens, positions, segments, LayerNorm
//              vit:  class token, positions, patch projection
//   blocks:    block_layout() each
//   final norm (not bert: its blocks end with one; not mlp)
//   head:      its own matrix, or the token table again when tied; a shared tensor is listed once
//              bert: pooler, masked-token head (bias, transform, LayerNorm), next-sentence head
//              vit:  classifier
//
// bert is BertForPreTraining; without `next_sentence` BertForMaskedLM, which has no pooler. vit is
// ViTForImageClassification. Tested by tests/unit/models/counts_test.cpp.

#include <array>
#include <map>
#include <string>

#include "base/error.hpp"
#include "models/architecture.hpp"
#include "models/composition.hpp"
#include "models/layout.hpp"
#include "models/model.hpp"
#include "models/resnet.hpp"

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
    case Family::llama:
    case Family::mixtral: return {"model.embed_tokens.weight", "", "model.layers.", "model.norm"};
    case Family::bert:
      return {"bert.embeddings.word_embeddings.weight",
              "bert.embeddings.position_embeddings.weight", "bert.encoder.layer.", ""};
    case Family::vit:
      return {"", "vit.embeddings.position_embeddings", "vit.encoder.layer.", "vit.layernorm"};
    case Family::mlp: return {"embedding.weight", "", "layers.", ""};
    case Family::resnet:
    case Family::composed: break;
  }
  STEPCAST_ASSERT(false, "a family without names");
}

class Builder {
 public:
  Builder(const std::string& name, const Architecture& architecture)
      : names_(names_of(architecture.family)) {
    model_.name = name;
    model_.architecture = architecture;
    classes_.fill(-1);
  }

  Model take() && {
    const Architecture& a = model_.architecture;
    const BlockLayout layout = block_layout(a);
    const auto layers = static_cast<std::size_t>(a.layers);
    model_.parameters.reserve(layers * layout.slots.size() + 16);
    model_.layers.reserve(layers + 3);

    open("embedding", LayerKind::embedding);
    if (a.family == Family::vit) {
      add("vit.embeddings.cls_token", {1, 1, a.hidden});
      add(names_.position_table, {1, a.max_positions, a.hidden});
      add("vit.embeddings.patch_embeddings.projection.weight",
          {a.hidden, 3, a.patch_size, a.patch_size});
      add("vit.embeddings.patch_embeddings.projection.bias", {a.hidden});
    } else {
      add(names_.token_table, {a.vocabulary, a.hidden});
      if (a.learned_positions) add(names_.position_table, {a.max_positions, a.hidden});
    }
    if (a.family == Family::bert) {
      add("bert.embeddings.token_type_embeddings.weight", {a.token_types, a.hidden});
      add_norm("bert.embeddings.LayerNorm");
    }
    close();

    for (std::int64_t i = 0; i < a.layers; ++i) add_block(i, layout);

    if (!names_.final_norm.empty()) {
      open("norm", LayerKind::final_norm);
      add_norm(names_.final_norm);
      close();
    }

    open("head", LayerKind::head);
    if (a.tied_embeddings) model_.layers.back().tied_parameter = 0;
    if (a.family == Family::bert) {
      add_bert_head();
    } else if (a.family == Family::vit) {
      add_linear("classifier", a.hidden, a.classes);
    } else if (!a.tied_embeddings) {
      add("lm_head.weight", {a.vocabulary, a.hidden});
    }
    close();
    return std::move(model_);
  }

 private:
  void add_norm(std::string_view name) {
    text_.assign(name);
    text_ += ".weight";
    add(text_, {model_.architecture.hidden});
    if (!model_.architecture.norm_bias) return;
    text_.assign(name);
    text_ += ".bias";
    add(text_, {model_.architecture.hidden});
  }

  void add_linear(const std::string& name, std::int64_t in, std::int64_t out) {
    add(name + ".weight", {out, in});
    add(name + ".bias", {out});
  }

  // The decoder's matrix is the token table, its bias stands in the predictions themselves.
  void add_bert_head() {
    const Architecture& a = model_.architecture;
    if (a.next_sentence) add_linear("bert.pooler.dense", a.hidden, a.hidden);
    add("cls.predictions.bias", {a.vocabulary});
    add_linear("cls.predictions.transform.dense", a.hidden, a.hidden);
    add_norm("cls.predictions.transform.LayerNorm");
    if (a.next_sentence) add_linear("cls.seq_relationship", a.hidden, 2);
  }

  void add_block(std::int64_t number, const BlockLayout& layout) {
    const std::string digits = std::to_string(number);
    text_.assign("layers.");
    text_ += digits;
    open(text_, LayerKind::block);
    text_.assign(names_.blocks);
    text_ += digits;
    text_ += '.';
    const std::size_t prefix = text_.size();
    for (const Slot& slot : layout.slots) {
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
    int& shape_class = classes_[static_cast<std::size_t>(kind)];  // layers of a kind are equal
    if (shape_class < 0) shape_class = model_.shape_classes++;
    layer.shape_class = shape_class;
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
  std::array<int, layer_kinds> classes_{};  // by LayerKind; -1: none yet
  std::string text_;  // reused for names: thousands of parameters, one allocation
};

}  // namespace

Model build_model(const std::string& name, const Architecture& architecture) {
  Architecture sizes = architecture;
  if (const auto problem = complete(sizes)) {
    throw InputError({name, 0, std::string(problem->field)}, problem->message);
  }
  if (sizes.family == Family::resnet) return build_resnet(name, sizes);
  if (sizes.family == Family::composed) return compose(name, sizes);
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
