// Readers of the families that models/layout.hpp knows: Llama and what is built like it to the last
// tensor, GPT-2, MPT, Mixtral, BERT, ViT.
//
// Source of keys and defaults: the configuration_*.py of transformers 4.x, llm-foundry's
// configuration_mpt.py. Tested by tests/unit/models/hf_config_test.cpp.

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "models/hf_read.hpp"

namespace stepcast::hf {
namespace {

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
              "experts are read for other model_types (mixtral, qwen3_moe, ...); accepted: dense "
              "models");
  }
  return read;
}

// A window that is shorter than the longest sequence leaves out pairs of tokens.
bool has_window(const JsonReader& json) {
  const auto window = json.optional_integer("sliding_window");
  const auto longest = json.optional_integer("max_position_embeddings");
  return window && (!longest || *window < *longest);
}

void say_no_window(const JsonReader& json, Read& read) {
  if (!has_window(json)) return;
  read.approximations.emplace_back(
      "sliding_window: attention is costed over all tokens before each");
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

}  // namespace

Read read_llama(const JsonReader& json) {
  Read read = dense(json, read_llama_like(json));
  read.sizes.attention_bias = json.boolean_or("attention_bias", false);
  read.sizes.attention_output_bias = read.sizes.attention_bias;
  read.sizes.mlp_bias = json.boolean_or("mlp_bias", false);
  return read;
}

// minicpm and smollm3: the head is the token table unless the file says otherwise.
Read read_tied_llama(const JsonReader& json) {
  Read read = read_llama(json);
  read.sizes.tied_embeddings = json.boolean_or("tie_word_embeddings", true);
  return read;
}

Read read_mistral(const JsonReader& json) {
  if (has_window(json)) return read_windowed_llama(json, false, 0);
  return dense(json, read_llama_like(json));
}

Read read_internlm(const JsonReader& json) {
  Read read = dense(json, read_llama_like(json));
  read.sizes.attention_bias = read.sizes.attention_output_bias = json.boolean_or("bias", true);
  return read;
}

// attention_out_bias, unlike Llama's.
Read read_seed_oss(const JsonReader& json) {
  Read read = dense(json, read_llama_like(json));
  read.sizes.attention_bias = json.boolean_or("attention_bias", true);
  read.sizes.attention_output_bias = json.boolean_or("attention_out_bias", false);
  read.sizes.mlp_bias = json.boolean_or("mlp_bias", false);
  return read;
}

Read read_ernie(const JsonReader& json) {
  Read read = dense(json, read_llama_like(json));
  const bool biases = json.boolean_or("use_bias", false);
  read.sizes.tied_embeddings = json.boolean_or("tie_word_embeddings", true);
  read.sizes.attention_bias = read.sizes.attention_output_bias = read.sizes.mlp_bias = biases;
  return read;
}

Read read_mixtral(const JsonReader& json) {
  Read read = read_llama_like(json);
  read.sizes.family = Family::mixtral;
  read.take(json, "experts", "num_local_experts", read.sizes.experts);
  read.take(json, "experts_per_token", "num_experts_per_tok", read.sizes.experts_per_token);
  say_no_window(json, read);
  return read;
}

Read read_qwen2(const JsonReader& json) {
  if (json.boolean_or("use_sliding_window", false) && has_window(json)) {
    return read_windowed_llama(json, true, json.optional_integer("max_window_layers").value_or(28));
  }
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
  if (json.boolean_or("use_sliding_window", false)) say_no_window(json, read);
  return read;
}

// GPT-2 has two names for some sizes (GPT2Config.attribute_map).
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
  // SantaCoder's first files: GPT-2's type and keys, one head of keys and values.
  const std::string heads = json.optional_string("attention_head_type").value_or("multihead");
  if (heads != "multihead") {
    throw InputError(json.where("attention_head_type"),
                     "'" + heads.substr(0, 40) +
                         "' is not built for gpt2; accepted: multihead, or model_type gpt_bigcode, "
                         "which has one head of keys and values");
  }
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

}  // namespace stepcast::hf
