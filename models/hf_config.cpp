// config.json of a Hugging Face model -> Architecture, one function a model_type.
//
// Sizes must stand in the file: a missing hidden_size is an error, not the default of some class.
// Switches take transformers' defaults, because files leave them out: tie_word_embeddings is false
// for llama, mistral, mixtral, qwen2 and qwen3 and true for gpt2, mpt and bert; num_key_value_heads
// are the heads, head_dim is hidden / heads. What would change the shapes and is not built (experts
// of other families, GLU in mpt, cross attention, heads of other tasks) is refused by name, so a
// model that is read is read right.
//
// A file of bert or vit says in `architectures` which heads it has. bert: BertForPreTraining (also
// where nothing is said) or BertForMaskedLM; vit: ViTForImageClassification, with as many classes
// as id2label names (2 where it is left out, as in transformers).
//
// Source of keys and defaults: the configuration_*.py of transformers 4.x, llm-foundry's
// configuration_mpt.py. Tested by tests/unit/models/hf_config_test.cpp.

#include "models/hf_config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "models/architecture.hpp"
#include "models/json_reader.hpp"

namespace stepcast {
namespace {

// Which key of the file a field of Architecture was read from, for errors.
struct Read {
  Architecture sizes;
  std::vector<std::pair<std::string_view, std::string_view>> keys;

  void take(const JsonReader& json, std::string_view field, std::string_view key,
            std::int64_t& into) {
    into = json.integer(key);
    keys.emplace_back(field, key);
    refuse_nothing(json, key, into);
  }
  void take_optional(const JsonReader& json, std::string_view field, std::string_view key,
                     std::int64_t& into) {
    const auto value = json.optional_integer(key);
    if (!value) return;
    into = *value;
    keys.emplace_back(field, key);
    refuse_nothing(json, key, into);
  }

 private:
  // complete() takes 0 for "not given"; a file that says 0 is wrong.
  static void refuse_nothing(const JsonReader& json, std::string_view key, std::int64_t value) {
    if (value < 1) {
      throw InputError(json.where(key),
                       fmt::format("{} is not a size; accepted: 1 or more", value));
    }
  }
};

void refuse_if(const JsonReader& json, std::string_view key, bool refused, std::string_view why) {
  if (refused) throw InputError(json.where(key), why);
}

// A probability above 0 keeps masks.
bool drops(const JsonReader& json, std::string_view key, double fallback) {
  const double p = json.optional_number(key).value_or(fallback);
  if (!(p >= 0.0 && p < 1.0)) {
    throw InputError(json.where(key), fmt::format("{} is not a probability; accepted: 0 to 1", p));
  }
  return p > 0.0;
}

// llama, mistral, qwen2, qwen3: one module structure.
Read read_llama_like(const JsonReader& json) {
  Read read;
  Architecture& a = read.sizes;
  a.family = Family::llama;
  read.take(json, "hidden", "hidden_size", a.hidden);
  read.take(json, "layers", "num_hidden_layers", a.layers);
  read.take(json, "heads", "num_attention_heads", a.heads);
  read.take(json, "ffn_hidden", "intermediate_size", a.ffn_hidden);
  read.take(json, "vocabulary", "vocab_size", a.vocabulary);
  read.take_optional(json, "kv_heads", "num_key_value_heads", a.kv_heads);
  read.take_optional(json, "head_size", "head_dim", a.head_size);
  read.take_optional(json, "max_positions", "max_position_embeddings", a.max_positions);
  a.tied_embeddings = json.boolean_or("tie_word_embeddings", false);
  a.attention_dropout = drops(json, "attention_dropout", 0.0);
  return read;
}

Read dense(const JsonReader& json, Read read) {
  for (const std::string_view key : {"num_local_experts", "num_experts", "n_routed_experts"}) {
    refuse_if(json, key, json.optional_integer(key).value_or(0) > 1,
              "mixture-of-experts layers are built for model_type mixtral only; accepted: dense "
              "models");
  }
  return read;
}

Read read_llama(const JsonReader& json) {
  Read read = dense(json, read_llama_like(json));
  read.sizes.attention_bias = json.boolean_or("attention_bias", false);
  read.sizes.attention_output_bias = read.sizes.attention_bias;
  read.sizes.mlp_bias = json.boolean_or("mlp_bias", false);
  return read;
}

Read read_mistral(const JsonReader& json) { return dense(json, read_llama_like(json)); }

Read read_mixtral(const JsonReader& json) {
  Read read = read_llama_like(json);
  read.sizes.family = Family::mixtral;
  read.take(json, "experts", "num_local_experts", read.sizes.experts);
  read.take(json, "experts_per_token", "num_experts_per_tok", read.sizes.experts_per_token);
  return read;
}

Read read_qwen2(const JsonReader& json) {
  Read read = dense(json, read_llama_like(json));
  read.sizes.attention_bias = true;  // q, k, v; fixed in the module, no key
  return read;
}

Read read_qwen3(const JsonReader& json) {
  Read read = dense(json, read_llama_like(json));
  if (read.sizes.head_size == 0) read.sizes.head_size = 128;  // Qwen3Config's, not hidden / heads
  read.sizes.attention_bias = json.boolean_or("attention_bias", false);
  read.sizes.attention_output_bias = read.sizes.attention_bias;
  read.sizes.query_key_norm = true;
  return read;
}

// GPT-2 has two names for some sizes (GPT2Config.attribute_map).
std::string_view first_of(const JsonReader& json, std::string_view name, std::string_view other) {
  return !json.has(name) && json.has(other) ? other : name;
}

Read read_gpt2(const JsonReader& json) {
  Read read;
  Architecture& a = read.sizes;
  a.family = Family::gpt2;
  read.take(json, "hidden", first_of(json, "n_embd", "hidden_size"), a.hidden);
  read.take(json, "layers", first_of(json, "n_layer", "num_hidden_layers"), a.layers);
  read.take(json, "heads", first_of(json, "n_head", "num_attention_heads"), a.heads);
  read.take(json, "vocabulary", "vocab_size", a.vocabulary);
  read.take(json, "max_positions", first_of(json, "n_positions", "max_position_embeddings"),
            a.max_positions);
  a.ffn_hidden = 4 * std::min(a.hidden, SizeLimits::hidden);
  read.take_optional(json, "ffn_hidden", "n_inner", a.ffn_hidden);
  a.learned_positions = true;
  a.tied_embeddings = json.boolean_or("tie_word_embeddings", true);
  a.attention_bias = a.attention_output_bias = a.mlp_bias = a.norm_bias = true;
  a.embedding_dropout = drops(json, "embd_pdrop", 0.1);
  a.attention_dropout = drops(json, "attn_pdrop", 0.1);
  a.residual_dropout = drops(json, "resid_pdrop", 0.1);
  refuse_if(json, "add_cross_attention", json.boolean_or("add_cross_attention", false),
            "is true; accepted: false, cross attention is not built");
  return read;
}

Read read_mpt(const JsonReader& json) {
  Read read;
  Architecture& a = read.sizes;
  a.family = Family::mpt;
  read.take(json, "hidden", "d_model", a.hidden);
  read.take(json, "layers", "n_layers", a.layers);
  read.take(json, "heads", "n_heads", a.heads);
  read.take(json, "vocabulary", "vocab_size", a.vocabulary);
  read.take(json, "max_positions", "max_seq_len", a.max_positions);
  std::int64_t ratio = 4;
  read.take_optional(json, "expansion_ratio", "expansion_ratio", ratio);
  if (ratio > SizeLimits::ffn_hidden) ratio = SizeLimits::ffn_hidden;
  a.ffn_hidden = ratio * std::min(a.hidden, SizeLimits::hidden);
  read.keys.emplace_back("ffn_hidden", "expansion_ratio");

  const bool biases = !json.boolean_or("no_bias", true);
  a.attention_bias = a.attention_output_bias = a.mlp_bias = a.norm_bias = biases;
  a.tied_embeddings = json.boolean_or("tie_word_embeddings", true);
  a.embedding_dropout = drops(json, "emb_pdrop", 0.0);
  a.residual_dropout = drops(json, "resid_pdrop", 0.0);
  bool alibi = true;
  if (const auto attention = json.object("attn_config")) {
    alibi = attention->boolean_or("alibi", true);
    a.attention_dropout = drops(*attention, "attn_pdrop", 0.0);
    const std::string type =
        attention->optional_string("attn_type").value_or("multihead_attention");
    if (type == "multiquery_attention") {
      a.kv_heads = 1;
    } else if (type == "grouped_query_attention") {
      a.kv_heads = attention->integer("kv_n_heads");
      read.keys.emplace_back("kv_heads", "attn_config.kv_n_heads");
      if (a.kv_heads < 1) {
        throw InputError(attention->where("kv_n_heads"),
                         fmt::format("{} is not a size; accepted: 1 or more", a.kv_heads));
      }
    } else if (type != "multihead_attention") {
      throw not_accepted(
          attention->where("attn_type"), type,
          {"multihead_attention", "multiquery_attention", "grouped_query_attention"});
    }
    for (const std::string_view key : {"qk_ln", "qk_gn", "rope"}) {
      refuse_if(*attention, key, attention->boolean_or(key, false),
                "is true; accepted: false, it is not built for mpt");
    }
  }
  // ALiBi turns the learned positions off.
  a.learned_positions = !alibi && json.boolean_or("learned_pos_emb", true);
  if (const auto ffn = json.object("ffn_config")) {
    const std::string type = ffn->optional_string("ffn_type").value_or("mptmlp");
    if (type != "mptmlp") throw not_accepted(ffn->where("ffn_type"), type, {"mptmlp"});
  }
  const std::string norm = json.optional_string("norm_type").value_or("layernorm");
  if (norm != "layernorm" && norm != "low_precision_layernorm") {
    throw not_accepted(json.where("norm_type"), norm, {"layernorm", "low_precision_layernorm"});
  }
  return read;
}

// bert and vit.
Read read_encoder(const JsonReader& json, Family family) {
  Read read;
  Architecture& a = read.sizes;
  a.family = family;
  read.take(json, "hidden", "hidden_size", a.hidden);
  read.take(json, "layers", "num_hidden_layers", a.layers);
  read.take(json, "heads", "num_attention_heads", a.heads);
  read.take(json, "ffn_hidden", "intermediate_size", a.ffn_hidden);
  a.attention_bias = a.attention_output_bias = a.mlp_bias = a.norm_bias = true;
  const double usual = family == Family::bert ? 0.1 : 0.0;
  a.embedding_dropout = a.residual_dropout = drops(json, "hidden_dropout_prob", usual);
  a.attention_dropout = drops(json, "attention_probs_dropout_prob", usual);
  return read;
}

// The first class that `architectures` names, or nothing.
std::string head_class(const JsonReader& json, const std::vector<std::string>& accepted) {
  const std::vector<std::string> classes = json.strings("architectures");
  if (classes.empty()) return "";
  if (std::find(accepted.begin(), accepted.end(), classes.front()) == accepted.end()) {
    throw not_accepted(json.where("architectures"), classes.front(), accepted);
  }
  return classes.front();
}

Read read_bert(const JsonReader& json) {
  Read read = read_encoder(json, Family::bert);
  Architecture& a = read.sizes;
  read.take(json, "vocabulary", "vocab_size", a.vocabulary);
  read.take(json, "max_positions", "max_position_embeddings", a.max_positions);
  a.token_types = 2;
  read.take_optional(json, "token_types", "type_vocab_size", a.token_types);
  a.learned_positions = true;
  a.tied_embeddings = json.boolean_or("tie_word_embeddings", true);
  refuse_if(json, "tie_word_embeddings", !a.tied_embeddings,
            "is false; accepted: true, the head uses the token table");
  const std::string positions =
      json.optional_string("position_embedding_type").value_or("absolute");
  if (positions != "absolute") {
    throw not_accepted(json.where("position_embedding_type"), positions, {"absolute"});
  }
  for (const std::string_view key : {"is_decoder", "add_cross_attention"}) {
    refuse_if(json, key, json.boolean_or(key, false), "is true; accepted: false");
  }
  a.next_sentence =
      head_class(json, {"BertForPreTraining", "BertForMaskedLM"}) != "BertForMaskedLM";
  return read;
}

Read read_vit(const JsonReader& json) {
  Read read = read_encoder(json, Family::vit);
  Architecture& a = read.sizes;
  read.take(json, "image_size", "image_size", a.image_size);
  read.take(json, "patch_size", "patch_size", a.patch_size);
  const std::int64_t channels = json.optional_integer("num_channels").value_or(3);
  refuse_if(json, "num_channels", channels != 3,
            fmt::format("{} is not built; accepted: 3", channels));
  a.attention_bias = json.boolean_or("qkv_bias", true);
  head_class(json, {"ViTForImageClassification"});
  const auto labels = json.object("id2label");
  a.classes = labels ? labels->entries() : json.optional_integer("num_labels").value_or(2);
  return read;
}

struct ModelType {
  std::string_view name;
  Read (*read)(const JsonReader&);
};

constexpr std::array<ModelType, 9> model_types{{{"llama", read_llama},
                                                {"mistral", read_mistral},
                                                {"mixtral", read_mixtral},
                                                {"qwen2", read_qwen2},
                                                {"qwen3", read_qwen3},
                                                {"gpt2", read_gpt2},
                                                {"mpt", read_mpt},
                                                {"bert", read_bert},
                                                {"vit", read_vit}}};

// All of them cost the same here: one pass over the MLP's inner activations. A name that is none of
// them may be something else, so it is refused.
void check_activation(const JsonReader& json) {
  static const std::vector<std::string> known{
      "silu", "swish", "gelu", "gelu_new", "gelu_fast", "gelu_pytorch_tanh", "quick_gelu", "relu"};
  for (const char* key : {"hidden_act", "activation_function"}) {
    const auto name = json.optional_string(key);
    if (name && std::find(known.begin(), known.end(), *name) == known.end()) {
      throw not_accepted(json.where(key), *name, known);
    }
  }
}

Read read_architecture(const JsonReader& json) {
  const std::string type = json.string("model_type", "one of the families that are read");
  check_activation(json);
  for (const ModelType& known : model_types) {
    if (known.name == type) return known.read(json);
  }
  throw not_accepted(json.where("model_type"), type, hf_model_types());
}

Dtype read_dtype(const JsonReader& json) {
  const std::string_view key = json.has("dtype") ? "dtype" : "torch_dtype";
  const auto text = json.optional_string(key);
  if (!text) return Dtype::fp32;
  const auto dtype = parse_dtype(*text);
  if (!dtype) {
    throw not_accepted(json.where(key), *text, {"float32", "float16", "bfloat16"});
  }
  return *dtype;
}

}  // namespace

std::vector<std::string> hf_model_types() {
  std::vector<std::string> names;
  names.reserve(model_types.size());
  for (const ModelType& known : model_types) names.emplace_back(known.name);
  return names;
}

Model model_from_hf_text(const std::string& text, const std::string& file,
                         const std::string& model_name, std::int64_t image_size) {
  const JsonReader json = JsonReader::from_text(text, file);
  Read read = read_architecture(json);
  const Dtype dtype = read_dtype(json);
  if (read.sizes.family == Family::vit && image_size > 0) read.sizes.image_size = image_size;
  if (const auto problem = complete(read.sizes)) {
    for (const auto& [field, key] : read.keys) {
      if (field == problem->field) throw InputError(json.where(key), problem->message);
    }
    throw InputError({file, 0, std::string(problem->field)}, problem->message);
  }
  Model model = build_model(model_name, read.sizes);
  model.source = file;
  model.stored_dtype = dtype;
  return model;
}

}  // namespace stepcast
