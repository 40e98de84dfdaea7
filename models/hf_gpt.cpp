// Decoders without experts that are built as GPT-2, GPT-J or BLOOM are: LayerNorms with biases, one
// MLP of two matrices, learned positions, ALiBi or a rotary part.
//
// Source: modeling_*.py and configuration_*.py of transformers 4.x; of phi-msft and RefinedWeb the
// first modeling files on the hub. Tested by tests/unit/models/hf_families_test.cpp with published
// parameter counts.

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "models/hf_read.hpp"

namespace stepcast::hf {
namespace {

Draft::Keys gpt2_keys() {
  return {.hidden = "n_embd",
          .layers = "n_layer",
          .heads = "n_head",
          .kv_heads = "",
          .head_size = "",
          .ffn = "",
          .positions = "n_positions"};
}

void gpt2_dropout(Draft& d, double usual) {
  d.read.sizes.embedding_dropout = drops(d.json, "embd_pdrop", usual);
  d.read.sizes.attention_dropout = drops(d.json, "attn_pdrop", usual);
  d.read.sizes.residual_dropout = drops(d.json, "resid_pdrop", usual);
}

// gptj and codegen: one norm, attention and MLP beside each other.
Read read_gptj_like(const JsonReader& json, std::string_view modules) {
  Draft d(json, gpt2_keys(), false);
  d.ffn = size_or(json, "n_inner", 4 * d.hidden, SizeLimits::ffn_hidden);
  BlockKind k = d.block("dense", modules);
  k.arrangement = Arrangement::parallel;
  k.rotary = size_or(json, "rotary_dim", std::min<std::int64_t>(64, d.head_size), d.head_size);
  d.add(std::move(k));
  d.composition.rms_norm = false;
  gpt2_dropout(d, 0.0);
  d.stack("transformer.wte=tokens", "transformer.h.", "transformer.ln_f=norm1+bias",
          head_of(d, "lm_head=head+bias"));
  return std::move(d).finish();
}

}  // namespace

// The first phi files on the hub, GPT-2's key names.
Read read_phi_msft(const JsonReader& json) {
  Draft d(json,
          {.hidden = "n_embd",
           .layers = "n_layer",
           .heads = "n_head",
           .kv_heads = "n_head_kv",
           .ffn = "",
           .positions = "n_positions"},
          false);
  d.ffn = size_or(json, "n_inner", 4 * d.hidden, SizeLimits::ffn_hidden);
  BlockKind k = d.block("dense",
                        "ln=norm1+bias mixer.Wqkv=qkv+bias mixer.out_proj=o+bias mlp.fc1=up+bias"
                        " mlp.fc2=down+bias");
  k.arrangement = Arrangement::parallel;
  k.rotary = size_or(json, "rotary_dim", d.head_size, d.head_size);
  d.add(std::move(k));
  d.composition.rms_norm = false;
  d.read.sizes.residual_dropout = drops(json, "resid_pdrop", 0.0);
  d.stack("transformer.embd.wte=tokens", "transformer.h.", "lm_head.ln=norm1+bias",
          head_of(d, "lm_head.linear=head+bias"));
  return std::move(d).finish();
}

Read read_gptj(const JsonReader& json) {
  return read_gptj_like(json,
                        "ln_1=norm1+bias attn.k_proj=k attn.v_proj=v attn.q_proj=q attn.out_proj=o"
                        " mlp.fc_in=up+bias mlp.fc_out=down+bias");
}

Read read_codegen(const JsonReader& json) {
  return read_gptj_like(json,
                        "ln_1=norm1+bias attn.qkv_proj=qkv attn.out_proj=o mlp.fc_in=up+bias"
                        " mlp.fc_out=down+bias");
}

Read read_gpt_neox(const JsonReader& json) {
  Draft d(json);
  const std::string b = bias(json.boolean_or("attention_bias", true));
  BlockKind k = d.block("dense",
                        "input_layernorm=norm1+bias post_attention_layernorm=norm2+bias"
                        " attention.query_key_value=qkv" +
                            b + " attention.dense=o" + b +
                            " mlp.dense_h_to_4h=up+bias mlp.dense_4h_to_h=down+bias");
  if (json.boolean_or("use_parallel_residual", true)) k.arrangement = Arrangement::parallel;
  k.rotary = rotary_of(json, "rotary_pct", 0.25, d.head_size);
  d.add(std::move(k));
  d.composition.rms_norm = false;
  d.read.sizes.attention_dropout = drops(json, "attention_dropout", 0.0);
  d.read.sizes.residual_dropout = drops(json, "hidden_dropout", 0.0);
  d.stack("gpt_neox.embed_in=tokens", "gpt_neox.layers.", "gpt_neox.final_layer_norm=norm1+bias",
          head_of(d, "embed_out=head"));
  return std::move(d).finish();
}

Read read_gpt_bigcode(const JsonReader& json) {
  Draft d(json, gpt2_keys(), true);
  d.ffn = size_or(json, "n_inner", 4 * d.hidden, SizeLimits::ffn_hidden);
  if (json.boolean_or("multi_query", true)) d.kv_heads = 1;
  BlockKind k = d.block("dense",
                        "ln_1=norm1+bias attn.c_attn=qkv+bias attn.c_proj=o+bias ln_2=norm2+bias"
                        " mlp.c_fc=up+bias mlp.c_proj=down+bias");
  k.rotary = 0;
  d.add(std::move(k));
  d.composition.rms_norm = false;
  d.read.sizes.learned_positions = true;
  gpt2_dropout(d, 0.1);
  d.stack("transformer.wte=tokens transformer.wpe=positions", "transformer.h.",
          "transformer.ln_f=norm1+bias", head_of(d));
  return std::move(d).finish();
}

Read read_opt(const JsonReader& json) {
  Draft d(json, {.kv_heads = "", .head_size = "", .ffn = "ffn_dim"}, true);
  const std::string b = bias(json.boolean_or("enable_bias", true));
  const std::string n = bias(json.boolean_or("layer_norm_elementwise_affine", true));
  refuse_if(json, "layer_norm_elementwise_affine", n.empty(), "is false; accepted: true");
  const bool before = json.boolean_or("do_layer_norm_before", true);
  BlockKind k = d.block("dense", "self_attn.k_proj=k" + b + " self_attn.v_proj=v" + b +
                                     " self_attn.q_proj=q" + b + " self_attn.out_proj=o" + b +
                                     " self_attn_layer_norm=norm1+bias fc1=up" + b + " fc2=down" +
                                     b + " final_layer_norm=norm2+bias");
  k.rotary = 0;
  if (!before) k.arrangement = Arrangement::post_norm;
  d.add(std::move(k));
  d.composition.rms_norm = false;
  d.composition.position_offset = 2;
  d.read.sizes.learned_positions = true;
  d.read.sizes.residual_dropout = drops(json, "dropout", 0.1);
  d.read.sizes.attention_dropout = drops(json, "attention_dropout", 0.0);
  std::string embedding =
      "model.decoder.embed_tokens=tokens model.decoder.embed_positions=positions";
  const std::int64_t width = size_or(json, "word_embed_proj_dim", d.hidden, SizeLimits::hidden);
  if (width != d.hidden) {
    d.composition.token_width = width;
    embedding += " model.decoder.project_out=project_out model.decoder.project_in=project_in";
  }
  const bool norm = before && !json.boolean_or("_remove_final_layer_norm", false);
  d.stack(embedding, "model.decoder.layers.",
          norm ? "model.decoder.final_layer_norm=norm1+bias" : "", head_of(d));
  if (norm) d.composition.segments[2].registered_early = true;
  return std::move(d).finish();
}

Read read_bloom(const JsonReader& json) {
  Draft d(json,
          {.hidden = json.has("n_embed") ? "n_embed" : first_of(json, "hidden_size", "n_embd"),
           .layers = first_of(json, "n_layer", "num_hidden_layers"),
           .heads = first_of(json, "n_head", "num_attention_heads"),
           .kv_heads = "",
           .head_size = "",
           .ffn = "",
           .positions = "seq_length"},
          true);
  d.ffn = size_or(json, "n_inner", 4 * d.hidden, SizeLimits::ffn_hidden);
  BlockKind k = d.block("dense",
                        "input_layernorm=norm1+bias self_attention.query_key_value=qkv+bias"
                        " self_attention.dense=o+bias post_attention_layernorm=norm2+bias"
                        " mlp.dense_h_to_4h=up+bias mlp.dense_4h_to_h=down+bias");
  k.rotary = 0;  // ALiBi adds to the scores, in the attention's kernel
  d.add(std::move(k));
  d.composition.rms_norm = false;
  d.read.sizes.residual_dropout = drops(json, "hidden_dropout", 0.0);
  d.read.sizes.attention_dropout = drops(json, "attention_dropout", 0.0);
  d.stack("transformer.word_embeddings=tokens transformer.word_embeddings_layernorm=norm1+bias",
          "transformer.h.", "transformer.ln_f=norm1+bias", head_of(d));
  return std::move(d).finish();
}

Read read_falcon(const JsonReader& json) {
  Draft d(json,
          {.hidden = first_of(json, "hidden_size", "n_embed"),
           .layers = first_of(json, "num_hidden_layers", "n_layer"),
           .heads = first_of(json, "num_attention_heads", "n_head"),
           .kv_heads = "",
           .head_size = "",
           .ffn = ""},
          true);
  d.ffn = size_or(json, "ffn_hidden_size", 4 * d.hidden, SizeLimits::ffn_hidden);
  // The first files of falcon-40b say RefinedWeb and the heads of keys, not the architecture.
  const bool first_large = json.optional_string("model_type").value_or("") == "RefinedWeb";
  const bool new_blocks = json.boolean_or("new_decoder_architecture", first_large);
  const std::string_view groups = first_of(json, "num_kv_heads", "n_head_kv");
  if (new_blocks) {
    d.kv_heads = size_or(json, groups, d.heads, d.heads);
  } else if (json.boolean_or("multi_query", true)) {
    d.kv_heads = 1;
  }
  const bool parallel = new_blocks || json.boolean_or("parallel_attn", true);
  const bool two_norms =
      new_blocks && json.optional_integer("num_ln_in_parallel_attn").value_or(2) == 2;
  const std::string b = bias(json.boolean_or("bias", false));
  std::string modules = "self_attention.query_key_value=qkv" + b + " self_attention.dense=o" + b +
                        " mlp.dense_h_to_4h=up" + b + " mlp.dense_4h_to_h=down" + b;
  modules += two_norms  ? " ln_attn=norm1+bias ln_mlp=norm2+bias"
             : parallel ? " input_layernorm=norm1+bias"
                        : " input_layernorm=norm1+bias post_attention_layernorm=norm2+bias";
  BlockKind k = d.block("dense", modules);
  if (parallel) k.arrangement = Arrangement::parallel;
  if (json.boolean_or("alibi", false)) k.rotary = 0;
  d.add(std::move(k));
  d.composition.rms_norm = false;
  d.read.sizes.residual_dropout = drops(json, "hidden_dropout", 0.0);
  d.read.sizes.attention_dropout = drops(json, "attention_dropout", 0.0);
  if (d.read.sizes.max_positions == 0) d.read.sizes.max_positions = 2048;  // FalconConfig's
  d.stack("transformer.word_embeddings=tokens", "transformer.h.", "transformer.ln_f=norm1+bias",
          head_of(d));
  return std::move(d).finish();
}

namespace {

// attention_layers says a kind a layer; attention_types says the same with repeats.
std::vector<std::string> gpt_neo_layers(const Draft& d) {
  const bool plain = d.json.has("attention_layers");
  const std::string_view key = plain ? "attention_layers" : "attention_types";
  std::vector<std::string> kinds = plain ? d.json.strings(key) : d.json.repeated_strings(key);
  if (!kinds.empty() && static_cast<std::int64_t>(kinds.size()) != d.layers) {
    throw InputError(
        d.json.where(key),
        fmt::format("names {} layers; accepted: as many as there are, {}", kinds.size(), d.layers));
  }
  for (const std::string& kind : kinds) {
    if (kind != "global" && kind != "local") {
      throw not_accepted(d.json.where(key), kind, {"global", "local"});
    }
  }
  return kinds;
}

}  // namespace

// A local layer sees 256 tokens; where the file does not say, every other layer is one.
Read read_gpt_neo(const JsonReader& json) {
  Draft d(json,
          {.layers = first_of(json, "num_layers", "num_hidden_layers"),
           .heads = first_of(json, "num_heads", "num_attention_heads"),
           .kv_heads = "",
           .head_size = "",
           .ffn = ""},
          true);
  d.ffn = size_or(json, "intermediate_size", 4 * d.hidden, SizeLimits::ffn_hidden);
  BlockKind k = d.block("dense",
                        "ln_1=norm1+bias attn.attention.k_proj=k attn.attention.v_proj=v"
                        " attn.attention.q_proj=q attn.attention.out_proj=o+bias ln_2=norm2+bias"
                        " mlp.c_fc=up+bias mlp.c_proj=down+bias");
  k.rotary = 0;
  d.add(std::move(k));
  d.order([](std::int64_t) { return 0; });
  const std::vector<std::string> kinds = gpt_neo_layers(d);
  d.windows(size_or(json, "window_size", 256, SizeLimits::max_positions), [&](std::int64_t i) {
    return kinds.empty() ? i % 2 == 1 : kinds[static_cast<std::size_t>(i)] == "local";
  });
  d.composition.rms_norm = false;
  d.read.sizes.learned_positions = true;
  d.read.sizes.embedding_dropout = drops(json, "embed_dropout", 0.0);
  d.read.sizes.attention_dropout = drops(json, "attention_dropout", 0.0);
  d.read.sizes.residual_dropout = drops(json, "resid_dropout", 0.0);
  d.stack("transformer.wte=tokens transformer.wpe=positions", "transformer.h.",
          "transformer.ln_f=norm1+bias", head_of(d));
  return std::move(d).finish();
}

}  // namespace stepcast::hf
