// Decoders without experts, one function a model_type: which modules a block has, in the order in
// which its PyTorch class registers them, and what transformers assumes where the file is silent.
//
// Source: modeling_*.py and configuration_*.py of transformers 4.x; of chatglm, internlm2 and qwen
// (1) the modeling files on the hub. Tested by tests/unit/models/hf_families_test.cpp with
// published parameter counts.

#include <algorithm>

#include "base/error.hpp"
#include "models/hf_read.hpp"

namespace stepcast::hf {
namespace {

constexpr std::string_view embed = "model.embed_tokens=tokens";
constexpr std::string_view blocks = "model.layers.";

std::string_view head_of(const Draft& draft, std::string_view own = "lm_head=head") {
  return draft.tied ? "" : own;
}

// A part of each head turns; 0.25 of 80 is 20.
std::int64_t rotary_of(const JsonReader& json, std::string_view key, double fallback,
                       std::int64_t head_size) {
  const double part = json.optional_number(key).value_or(fallback);
  if (!(part >= 0 && part <= 1)) {
    throw InputError(json.where(key), "is no part of a head; accepted: 0 to 1");
  }
  return static_cast<std::int64_t>(part * static_cast<double>(head_size));
}

}  // namespace

// Llama's block; attention within a window from layer `first_layer` on.
Read read_windowed_llama(const JsonReader& json, bool qkv_bias, std::int64_t first_layer) {
  Draft d(json);
  LlamaModules m;
  m.qkv_bias = qkv_bias;
  d.add(d.block("dense", llama_modules(m)));
  d.order([](std::int64_t) { return 0; });
  d.typed_windows(size_of(json, "sliding_window", SizeLimits::max_positions),
                  [&](std::int64_t i) { return i >= first_layer; });
  d.stack(embed, blocks, "model.norm=norm1", head_of(d));
  d.read.sizes.attention_dropout = drops(json, "attention_dropout", 0.0);
  return std::move(d).finish();
}

Read read_gemma(const JsonReader& json) {
  Draft d(json, true);
  if (!json.has("head_dim")) d.head_size = 256;  // GemmaConfig's, not hidden / heads
  LlamaModules m;
  m.qkv_bias = m.output_bias = json.boolean_or("attention_bias", false);
  d.add(d.block("dense", llama_modules(m)));
  d.stack(embed, blocks, "model.norm=norm1", head_of(d));
  return std::move(d).finish();
}

namespace {

// Norms before and behind both branches; every other layer (of six five) sees a window.
Read sandwiched(Draft d, bool head_norms, std::int64_t pattern, std::int64_t window) {
  const std::string b = bias(d.json.boolean_or("attention_bias", false));
  d.add(d.block("dense",
                "self_attn.q_proj=q" + b + " self_attn.k_proj=k" + b + " self_attn.v_proj=v" + b +
                    " self_attn.o_proj=o" + b +
                    (head_norms ? " self_attn.q_norm=q_norm self_attn.k_norm=k_norm" : "") +
                    " mlp.gate_proj=gate mlp.up_proj=up mlp.down_proj=down input_layernorm=norm1"
                    " post_attention_layernorm=post1 pre_feedforward_layernorm=norm2"
                    " post_feedforward_layernorm=post2"));
  d.order([](std::int64_t) { return 0; });
  d.typed_windows(window, [&](std::int64_t i) { return (i + 1) % pattern != 0; });
  d.stack(embed, blocks, "model.norm=norm1", head_of(d));
  return std::move(d).finish();
}

}  // namespace

Read read_gemma2(const JsonReader& json) {
  Draft d(json, true);
  if (!json.has("head_dim")) d.head_size = 256;
  const std::int64_t window = size_or(json, "sliding_window", 4096, SizeLimits::max_positions);
  return sandwiched(std::move(d), false, 2, window);
}

// The hub's multimodal files leave out what Gemma3TextConfig assumes.
Read read_gemma3(const JsonReader& json) {
  Draft::Keys keys;
  keys.usual_heads = 8;
  keys.usual_kv_heads = 4;
  keys.usual_vocabulary = 262208;
  Draft d(json, keys, true);
  if (d.read.sizes.max_positions == 0) d.read.sizes.max_positions = 131072;
  if (!json.has("head_dim")) d.head_size = 256;
  const std::int64_t window = size_or(json, "sliding_window", 4096, SizeLimits::max_positions);
  const std::int64_t pattern = size_or(json, "sliding_window_pattern", 6, SizeLimits::layers);
  return sandwiched(std::move(d), true, pattern, window);
}

Read read_phi(const JsonReader& json) {
  Draft d(json);
  refuse_if(json, "qk_layernorm", json.boolean_or("qk_layernorm", false),
            "is true; accepted: false, norms of queries and keys are not built for phi");
  BlockKind k = d.block("dense",
                        "self_attn.q_proj=q+bias self_attn.k_proj=k+bias self_attn.v_proj=v+bias"
                        " self_attn.dense=o+bias mlp.fc1=up+bias mlp.fc2=down+bias"
                        " input_layernorm=norm1+bias");
  k.arrangement = Arrangement::parallel;
  k.rotary = rotary_of(json, "partial_rotary_factor", 0.5, d.head_size);
  d.add(std::move(k));
  d.composition.rms_norm = false;
  d.read.sizes.residual_dropout = drops(json, "resid_pdrop", 0.0);
  d.stack(embed, blocks, "model.final_layernorm=norm1+bias", head_of(d, "lm_head=head+bias"));
  return std::move(d).finish();
}

// The first phi files on the hub, GPT-2's key names.
Read read_phi_msft(const JsonReader& json) {
  Draft::Keys keys;
  keys.hidden = "n_embd";
  keys.layers = "n_layer";
  keys.heads = "n_head";
  keys.kv_heads = "n_head_kv";
  keys.ffn = "";
  keys.positions = "n_positions";
  Draft d(json, keys, false);
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

Read read_phi3(const JsonReader& json) {
  for (const std::string_view key : {"attention_bias", "mlp_bias", "lm_head_bias"}) {
    refuse_if(json, key, json.boolean_or(key, false), "is true; accepted: false for phi3");
  }
  Draft d(json);
  BlockKind k = d.block("dense",
                        "self_attn.o_proj=o self_attn.qkv_proj=qkv mlp.gate_up_proj=gate_up"
                        " mlp.down_proj=down input_layernorm=norm1 post_attention_layernorm=norm2");
  k.rotary = rotary_of(json, "partial_rotary_factor", 1.0, d.head_size);
  d.add(std::move(k));
  d.order([](std::int64_t) { return 0; });
  const std::int64_t window = size_or(json, "sliding_window", 0, SizeLimits::max_positions);
  if (window > 0) d.typed_windows(window, [](std::int64_t) { return true; });
  d.read.sizes.residual_dropout = drops(json, "resid_pdrop", 0.0);
  d.stack(embed, blocks, "model.norm=norm1", head_of(d));
  return std::move(d).finish();
}

namespace {

Draft::Keys gpt2_keys() {
  Draft::Keys keys;
  keys.hidden = "n_embd";
  keys.layers = "n_layer";
  keys.heads = "n_head";
  keys.kv_heads = "";
  keys.head_size = "";
  keys.ffn = "";
  keys.positions = "n_positions";
  return keys;
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
  Draft::Keys keys;
  keys.kv_heads = "";
  keys.head_size = "";
  keys.ffn = "ffn_dim";
  Draft d(json, keys, true);
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
  Draft::Keys keys;
  keys.hidden = json.has("n_embed") ? "n_embed" : first_of(json, "hidden_size", "n_embd");
  keys.layers = first_of(json, "n_layer", "num_hidden_layers");
  keys.heads = first_of(json, "n_head", "num_attention_heads");
  keys.kv_heads = "";
  keys.head_size = "";
  keys.ffn = "";
  keys.positions = "seq_length";
  Draft d(json, keys, true);
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
  Draft::Keys keys;
  keys.hidden = first_of(json, "hidden_size", "n_embed");
  keys.layers = first_of(json, "num_hidden_layers", "n_layer");
  keys.heads = first_of(json, "num_attention_heads", "n_head");
  keys.kv_heads = "";
  keys.head_size = "";
  keys.ffn = "";
  Draft d(json, keys, true);
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

// OLMo's norms have no parameters.
Read read_olmo(const JsonReader& json) {
  Draft d(json);
  const std::string b = bias(json.boolean_or("attention_bias", false));
  d.add(d.block("dense", "self_attn.q_proj=q" + b + " self_attn.k_proj=k" + b +
                             " self_attn.v_proj=v" + b + " self_attn.o_proj=o" + b +
                             " mlp.gate_proj=gate mlp.up_proj=up mlp.down_proj=down -=norm1"
                             " -=norm2"));
  d.composition.rms_norm = false;
  d.stack(embed, blocks, "-=norm1", head_of(d));
  return std::move(d).finish();
}

// OLMo 2 and 3: norms of what each branch adds, none before; 3 has windows.
Read read_olmo2(const JsonReader& json) {
  Draft d(json);
  const std::string b = bias(json.boolean_or("attention_bias", false));
  d.add(d.block("dense", "self_attn.q_proj=q" + b + " self_attn.k_proj=k" + b +
                             " self_attn.v_proj=v" + b + " self_attn.o_proj=o" + b +
                             " self_attn.q_norm=q_norm+wide self_attn.k_norm=k_norm+wide"
                             " mlp.gate_proj=gate mlp.up_proj=up mlp.down_proj=down"
                             " post_attention_layernorm=post1 post_feedforward_layernorm=post2"));
  d.order([](std::int64_t) { return 0; });
  const std::int64_t window = size_or(json, "sliding_window", 0, SizeLimits::max_positions);
  if (window > 0) d.typed_windows(window, [](std::int64_t i) { return (i + 1) % 4 != 0; });
  d.stack(embed, blocks, "model.norm=norm1", head_of(d));
  return std::move(d).finish();
}

Read read_stablelm(const JsonReader& json) {
  Draft d(json);
  const std::string b = bias(json.boolean_or("use_qkv_bias", false));
  const bool parallel = json.boolean_or("use_parallel_residual", false);
  const bool head_norms = json.boolean_or("qk_layernorm", false);
  BlockKind k = d.block(
      "dense",
      "self_attn.q_proj=q" + b + " self_attn.k_proj=k" + b + " self_attn.v_proj=v" + b +
          " self_attn.o_proj=o" +
          (head_norms ? " self_attn.q_layernorm=q_norm+wide self_attn.k_layernorm=k_norm+wide"
                      : "") +
          " mlp.gate_proj=gate mlp.up_proj=up mlp.down_proj=down input_layernorm=norm1+bias" +
          (parallel ? "" : " post_attention_layernorm=norm2+bias"));
  if (parallel) k.arrangement = Arrangement::parallel;
  k.rotary = rotary_of(json, "partial_rotary_factor", 0.25, d.head_size);
  d.add(std::move(k));
  d.composition.rms_norm = false;
  d.stack(embed, blocks, "model.norm=norm1+bias", head_of(d));
  return std::move(d).finish();
}

Read read_starcoder2(const JsonReader& json) {
  Draft d(json, true);
  const std::string b = bias(json.boolean_or("use_bias", true));
  d.add(d.block("dense", "self_attn.q_proj=q" + b + " self_attn.k_proj=k" + b +
                             " self_attn.v_proj=v" + b + " self_attn.o_proj=o" + b +
                             " mlp.c_fc=up" + b + " mlp.c_proj=down" + b +
                             " input_layernorm=norm1+bias post_attention_layernorm=norm2+bias"));
  d.order([](std::int64_t) { return 0; });
  const std::int64_t window = size_or(json, "sliding_window", 0, SizeLimits::max_positions);
  if (window > 0) d.typed_windows(window, [](std::int64_t) { return true; });
  d.composition.rms_norm = false;
  d.read.sizes.residual_dropout = drops(json, "residual_dropout", 0.0);
  d.read.sizes.attention_dropout = drops(json, "attention_dropout", 0.0);
  d.read.sizes.embedding_dropout = drops(json, "embedding_dropout", 0.0);
  d.stack(embed, blocks, "model.norm=norm1+bias", head_of(d));
  return std::move(d).finish();
}

Read read_internlm2(const JsonReader& json) {
  Draft d(json);
  const std::string b = bias(json.boolean_or("bias", false));
  d.add(d.block("dense", "attention.wqkv=qkv" + b + " attention.wo=o" + b +
                             " feed_forward.w1=gate feed_forward.w3=up feed_forward.w2=down"
                             " attention_norm=norm1 ffn_norm=norm2"));
  d.stack("model.tok_embeddings=tokens", blocks, "model.norm=norm1", head_of(d, "output=head"));
  return std::move(d).finish();
}

// cohere and cohere2 (whose first three of four layers see a window).
Read read_cohere(const JsonReader& json) {
  Draft d(json, true);
  const std::string b = bias(json.boolean_or("attention_bias", false));
  const bool head_norms = json.boolean_or("use_qk_norm", false);
  BlockKind k =
      d.block("dense",
              "self_attn.q_proj=q" + b + " self_attn.k_proj=k" + b + " self_attn.v_proj=v" + b +
                  " self_attn.o_proj=o" + b +
                  (head_norms ? " self_attn.q_norm=q_norm+wide self_attn.k_norm=k_norm+wide" : "") +
                  " mlp.gate_proj=gate mlp.up_proj=up mlp.down_proj=down input_layernorm=norm1");
  k.arrangement = Arrangement::parallel;
  d.add(std::move(k));
  d.order([](std::int64_t) { return 0; });
  const std::int64_t window = size_or(json, "sliding_window", 0, SizeLimits::max_positions);
  const std::int64_t pattern = size_or(json, "sliding_window_pattern", 4, SizeLimits::layers);
  if (window > 0) d.typed_windows(window, [&](std::int64_t i) { return (i + 1) % pattern != 0; });
  d.composition.rms_norm = false;
  d.stack(embed, blocks, "model.norm=norm1", head_of(d));
  return std::move(d).finish();
}

Read read_nemotron(const JsonReader& json) {
  Draft d(json);
  const std::string b = bias(json.boolean_or("attention_bias", false));
  const std::string f = bias(json.boolean_or("mlp_bias", false));
  BlockKind k = d.block("dense", "self_attn.q_proj=q" + b + " self_attn.k_proj=k" + b +
                                     " self_attn.v_proj=v" + b + " self_attn.o_proj=o" + b +
                                     " mlp.up_proj=up" + f + " mlp.down_proj=down" + f +
                                     " input_layernorm=norm1+bias"
                                     " post_attention_layernorm=norm2+bias");
  k.rotary = rotary_of(json, "partial_rotary_factor", 0.5, d.head_size);
  d.add(std::move(k));
  d.composition.rms_norm = false;
  d.stack(embed, blocks, "model.norm=norm1+bias", head_of(d));
  return std::move(d).finish();
}

// glm and glm4 (whose branches end in norms).
Read read_glm(const JsonReader& json) {
  Draft d(json);
  const std::string b = bias(json.boolean_or("attention_bias", false));
  const bool four = json.string("model_type", "glm or glm4") == "glm4";
  BlockKind k = d.block(
      "dense",
      "self_attn.q_proj=q" + b + " self_attn.k_proj=k" + b + " self_attn.v_proj=v" + b +
          " self_attn.o_proj=o mlp.gate_up_proj=gate_up mlp.down_proj=down input_layernorm=norm1"
          " post_attention_layernorm=norm2" +
          (four ? " post_self_attn_layernorm=post1 post_mlp_layernorm=post2" : ""));
  k.rotary = rotary_of(json, "partial_rotary_factor", 0.5, d.head_size);
  d.add(std::move(k));
  d.stack(embed, blocks, "model.norm=norm1", head_of(d));
  return std::move(d).finish();
}

// ChatGLM2 and 3.
Read read_chatglm(const JsonReader& json) {
  for (const std::string_view key :
       {"apply_residual_connection_post_layernorm", "add_bias_linear"}) {
    refuse_if(json, key, json.boolean_or(key, false), "is true; accepted: false");
  }
  for (const std::string_view key : {"rmsnorm", "post_layer_norm"}) {
    refuse_if(json, key, !json.boolean_or(key, true), "is false; accepted: true");
  }
  Draft::Keys keys;
  keys.layers = "num_layers";
  keys.kv_heads = "";
  keys.head_size = "kv_channels";
  keys.ffn = "ffn_hidden_size";
  keys.vocabulary = first_of(json, "padded_vocab_size", "vocab_size");
  keys.positions = "seq_length";
  Draft d(json, keys, false);
  if (json.boolean_or("multi_query_attention", false)) {
    d.kv_heads = size_of(json, "multi_query_group_num", d.heads);
  }
  BlockKind k = d.block("dense", "input_layernorm=norm1 self_attention.query_key_value=qkv" +
                                     bias(json.boolean_or("add_qkv_bias", false)) +
                                     " self_attention.dense=o post_attention_layernorm=norm2"
                                     " mlp.dense_h_to_4h=gate_up mlp.dense_4h_to_h=down");
  k.rotary = d.head_size / 2;
  d.add(std::move(k));
  d.read.sizes.attention_dropout = drops(json, "attention_dropout", 0.0);
  d.read.sizes.residual_dropout = drops(json, "hidden_dropout", 0.0);
  d.stack("transformer.embedding.word_embeddings=tokens", "transformer.encoder.layers.",
          "transformer.encoder.final_layernorm=norm1", head_of(d, "transformer.output_layer=head"));
  return std::move(d).finish();
}

// Baichuan 1 and 2; the 13B has ALiBi and names its longest sequence otherwise.
Read read_baichuan(const JsonReader& json) {
  Draft::Keys keys;
  keys.positions = first_of(json, "max_position_embeddings", "model_max_length");
  Draft d(json, keys, false);
  BlockKind k = d.block("dense",
                        "self_attn.W_pack=qkv self_attn.o_proj=o mlp.gate_proj=gate"
                        " mlp.down_proj=down mlp.up_proj=up input_layernorm=norm1"
                        " post_attention_layernorm=norm2");
  if (!json.has("max_position_embeddings")) k.rotary = 0;
  d.add(std::move(k));
  d.stack(embed, blocks, "model.norm=norm1", head_of(d));
  return std::move(d).finish();
}

// Every other layer sees 256 tokens.
Read read_gpt_neo(const JsonReader& json) {
  Draft::Keys keys;
  keys.layers = first_of(json, "num_layers", "num_hidden_layers");
  keys.heads = first_of(json, "num_heads", "num_attention_heads");
  keys.kv_heads = "";
  keys.head_size = "";
  keys.ffn = "";
  Draft d(json, keys, true);
  d.ffn = size_or(json, "intermediate_size", 4 * d.hidden, SizeLimits::ffn_hidden);
  BlockKind k = d.block("dense",
                        "ln_1=norm1+bias attn.attention.k_proj=k attn.attention.v_proj=v"
                        " attn.attention.q_proj=q attn.attention.out_proj=o+bias ln_2=norm2+bias"
                        " mlp.c_fc=up+bias mlp.c_proj=down+bias");
  k.rotary = 0;
  d.add(std::move(k));
  d.order([](std::int64_t) { return 0; });
  d.windows(size_or(json, "window_size", 256, SizeLimits::max_positions),
            [](std::int64_t i) { return i % 2 == 1; });
  d.composition.rms_norm = false;
  d.read.sizes.learned_positions = true;
  d.read.sizes.embedding_dropout = drops(json, "embed_dropout", 0.0);
  d.read.sizes.attention_dropout = drops(json, "attention_dropout", 0.0);
  d.read.sizes.residual_dropout = drops(json, "resid_dropout", 0.0);
  d.stack("transformer.wte=tokens transformer.wpe=positions", "transformer.h.",
          "transformer.ln_f=norm1+bias", head_of(d));
  return std::move(d).finish();
}

// The first Qwen: intermediate_size counts gate and up together.
Read read_qwen(const JsonReader& json) {
  Draft::Keys keys;
  keys.kv_heads = "";
  keys.head_size = "kv_channels";
  Draft d(json, keys, false);
  refuse_if(json, "intermediate_size", d.ffn % 2 != 0, "is odd; accepted: twice the MLP's width");
  d.ffn /= 2;
  refuse_if(json, "no_bias", !json.boolean_or("no_bias", true), "is false; accepted: true");
  if (d.heads * d.head_size != d.hidden) {
    throw InputError(json.where("kv_channels"), "times the heads is not the hidden size");
  }
  d.add(d.block("dense",
                "ln_1=norm1 attn.c_attn=qkv+bias attn.c_proj=o ln_2=norm2 mlp.w1=up mlp.w2=gate"
                " mlp.c_proj=down"));
  d.read.sizes.attention_dropout = drops(json, "attn_dropout_prob", 0.0);
  d.read.sizes.embedding_dropout = drops(json, "emb_dropout_prob", 0.0);
  d.stack("transformer.wte=tokens", "transformer.h.", "transformer.ln_f=norm1", head_of(d));
  return std::move(d).finish();
}

}  // namespace stepcast::hf
