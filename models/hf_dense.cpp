// Decoders without experts that are built as Llama is, one function a model_type: which modules a
// block has, in the order in which its PyTorch class registers them, and what transformers assumes
// where the file is silent.
//
// Source: modeling_*.py and configuration_*.py of transformers 4.x; of chatglm, internlm2 and qwen
// (1) the modeling files on the hub. Tested by tests/unit/models/hf_families_test.cpp with
// published parameter counts.

#include "base/error.hpp"
#include "models/hf_read.hpp"

namespace stepcast::hf {
namespace {

constexpr std::string_view embed = "model.embed_tokens=tokens";
constexpr std::string_view blocks = "model.layers.";

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
  Draft d(json, {.usual_heads = 8, .usual_kv_heads = 4, .usual_vocabulary = 262208}, true);
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
  Draft d(json,
          {.layers = "num_layers",
           .kv_heads = "",
           .head_size = "kv_channels",
           .ffn = "ffn_hidden_size",
           .vocabulary = first_of(json, "padded_vocab_size", "vocab_size"),
           .positions = "seq_length"},
          false);
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
  Draft d(json, {.positions = first_of(json, "max_position_embeddings", "model_max_length")},
          false);
  BlockKind k = d.block("dense",
                        "self_attn.W_pack=qkv self_attn.o_proj=o mlp.gate_proj=gate"
                        " mlp.down_proj=down mlp.up_proj=up input_layernorm=norm1"
                        " post_attention_layernorm=norm2");
  if (!json.has("max_position_embeddings")) k.rotary = 0;
  d.add(std::move(k));
  d.stack(embed, blocks, "model.norm=norm1", head_of(d));
  return std::move(d).finish();
}

// The first Qwen: intermediate_size counts gate and up together.
Read read_qwen(const JsonReader& json) {
  Draft d(json, {.kv_heads = "", .head_size = "kv_channels"}, false);
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
