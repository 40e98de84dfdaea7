// Decoders with mixtures of experts, one function a family (Mixtral is models/layout.hpp's own).
//
//   qwen2_moe, qwen3_moe  every decoder_sparse_step-th layer; shared expert behind a switch (2)
//   deepseek v2, v3       latent attention, first layers dense, shared experts added; Kimi K2, and
//                         with an indexer of sparse attention GLM-5 and DeepSeek V3.2
//   gpt_oss, llama4       experts of one tensor; attention sinks; chunks
//
// The correction of DeepSeek-V3's router is counted (it is a parameter on the hub); the layers for
// multi-token prediction are not, as transformers does not build them.
//
// Source: modeling_*.py of transformers 4.x; modeling_deepseek.py on the hub. Tested by
// tests/unit/models/hf_families_test.cpp with published parameter counts.

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "models/hf_read.hpp"

namespace stepcast::hf {
namespace {

constexpr std::string_view embed = "model.embed_tokens=tokens";
constexpr std::string_view blocks = "model.layers.";
constexpr std::string_view gated_experts =
    "mlp.experts.*.gate_proj=expert_gate mlp.experts.*.up_proj=expert_up"
    " mlp.experts.*.down_proj=expert_down";
constexpr std::string_view gated_shared =
    "mlp.shared_experts.gate_proj=shared_gate mlp.shared_experts.up_proj=shared_up"
    " mlp.shared_experts.down_proj=shared_down";

// `count` and `chosen` are the file's keys.
void take_experts(Draft& d, BlockKind& k, std::string_view count, std::string_view chosen,
                  std::int64_t width) {
  k.experts = size_of(d.json, count, SizeLimits::experts);
  k.experts_per_token = size_of(d.json, chosen, k.experts);
  k.expert_ffn = width;
  d.read.keys.emplace_back("experts", count);
  d.read.keys.emplace_back("experts_per_token", chosen);
  if (k.experts < 2) {
    throw InputError(d.json.where(count), "1 is no mixture; accepted: 2 or more experts");
  }
}

std::string attention(bool qkv_bias, bool output_bias, bool head_norms, bool wide = false) {
  const std::string b = bias(qkv_bias);
  std::string text = "self_attn.q_proj=q" + b + " self_attn.k_proj=k" + b + " self_attn.v_proj=v" +
                     b + " self_attn.o_proj=o" + bias(output_bias);
  if (head_norms) {
    const std::string w = wide ? "+wide" : "";
    text += " self_attn.q_norm=q_norm" + w + " self_attn.k_norm=k_norm" + w;
  }
  return text;
}

std::string with_norms(const std::string& text) {
  return text + " input_layernorm=norm1 post_attention_layernorm=norm2";
}

constexpr std::string_view dense_mlp = " mlp.gate_proj=gate mlp.up_proj=up mlp.down_proj=down";

}  // namespace

Read read_qwen_moe(const JsonReader& json) {
  const bool second = json.string("model_type", "qwen2_moe or qwen3_moe").starts_with("qwen2");
  Draft d(json, {.ffn = json.has("intermediate_size") ? "intermediate_size" : ""}, false);
  if (!second && !json.has("head_dim")) d.head_size = d.hidden / d.heads;
  const std::int64_t width = size_of(json, "moe_intermediate_size", SizeLimits::ffn_hidden);
  const bool b =
      second ? json.boolean_or("qkv_bias", true) : json.boolean_or("attention_bias", false);
  const std::string attends = attention(b, !second && b, !second);
  std::string experts = " mlp.gate=router " + std::string(gated_experts);
  const std::int64_t shared =
      second ? size_or(json, "shared_expert_intermediate_size", 0, SizeLimits::ffn_hidden) : 0;
  if (shared > 0) {
    experts +=
        " mlp.shared_expert.gate_proj=shared_gate mlp.shared_expert.up_proj=shared_up"
        " mlp.shared_expert.down_proj=shared_down mlp.shared_expert_gate=shared_switch";
  }
  BlockKind moe = d.block("moe", with_norms(attends + experts));
  take_experts(d, moe, first_of(json, "num_experts", "num_local_experts"), "num_experts_per_tok",
               width);
  moe.shared_ffn = shared;
  const int sparse = d.add(std::move(moe));
  const std::int64_t step = size_or(json, "decoder_sparse_step", 1, SizeLimits::layers);
  const std::vector<std::int64_t> only = json.integers("mlp_only_layers");
  const auto is_sparse = [&](std::int64_t i) {
    return (i + 1) % step == 0 && std::find(only.begin(), only.end(), i) == only.end();
  };
  bool all = true;
  for (std::int64_t i = 0; i < d.layers; ++i) all = all && is_sparse(i);
  if (!all) d.ffn = size_of(json, "intermediate_size", SizeLimits::ffn_hidden);
  const int dense =
      all ? sparse : d.add(d.block("dense", with_norms(attends + std::string(dense_mlp))));
  d.order([&](std::int64_t i) { return is_sparse(i) ? sparse : dense; });
  if (json.boolean_or("use_sliding_window", false)) {
    const std::int64_t first = size_or(json, "max_window_layers", d.layers, SizeLimits::layers);
    d.typed_windows(size_of(json, "sliding_window", SizeLimits::max_positions),
                    [&](std::int64_t i) { return i >= first; });
  }
  d.stack(embed, blocks, "model.norm=norm1", head_of(d));
  return std::move(d).finish();
}

Read read_olmoe(const JsonReader& json) {
  Draft d(json);
  const bool b = json.boolean_or("attention_bias", false);
  BlockKind moe = d.block("moe", with_norms(attention(b, b, true, true) + " mlp.gate=router " +
                                            std::string(gated_experts)));
  take_experts(d, moe, "num_experts", "num_experts_per_tok", d.ffn);
  d.add(std::move(moe));
  d.stack(embed, blocks, "model.norm=norm1", head_of(d));
  return std::move(d).finish();
}

Read read_phimoe(const JsonReader& json) {
  Draft d(json);
  const bool b = json.boolean_or("attention_bias", false);
  BlockKind moe = d.block(
      "moe",
      attention(b, b, false) +
          " block_sparse_moe.gate=router block_sparse_moe.experts.*.w1=expert_gate"
          " block_sparse_moe.experts.*.w2=expert_down block_sparse_moe.experts.*.w3=expert_up"
          " input_layernorm=norm1+bias post_attention_layernorm=norm2+bias");
  take_experts(d, moe, "num_local_experts", "num_experts_per_tok", d.ffn);
  d.add(std::move(moe));
  d.order([](std::int64_t) { return 0; });
  const std::int64_t window = size_or(json, "sliding_window", 0, SizeLimits::max_positions);
  if (window > 0) d.windows(window, [](std::int64_t) { return true; });
  d.composition.rms_norm = false;
  d.stack(embed, blocks, "model.norm=norm1+bias",
          json.boolean_or("lm_head_bias", false) ? head_of(d, "lm_head=head+bias") : head_of(d));
  return std::move(d).finish();
}

Read read_granitemoe(const JsonReader& json) {
  Draft d(json);
  const bool b = json.boolean_or("attention_bias", false);
  BlockKind moe = d.block("moe", with_norms(attention(b, b, false)) +
                                     " block_sparse_moe.input_linear=experts_gate_up"
                                     " block_sparse_moe.output_linear=experts_down"
                                     " block_sparse_moe.router.layer=router");
  take_experts(d, moe, "num_local_experts", "num_experts_per_tok", d.ffn);
  d.add(std::move(moe));
  d.stack(embed, blocks, "model.norm=norm1", head_of(d));
  return std::move(d).finish();
}

namespace {

// Dense layers first, then experts beside shared ones. `correction`: of the router's scores.
void order_deepseek(Draft& d, const std::string& attends, bool correction, const BlockKind& sizes) {
  const JsonReader& json = d.json;
  const auto sized = [&](BlockKind k) {
    k.head_size = sizes.head_size;
    k.value_size = sizes.value_size;
    k.rotary = sizes.rotary;
    k.q_rank = sizes.q_rank;
    k.kv_rank = sizes.kv_rank;
    k.rope_size = sizes.rope_size;
    return k;
  };
  const std::int64_t count = json.optional_integer("n_routed_experts").value_or(0);
  const int dense = d.add(sized(d.block("dense", with_norms(attends + std::string(dense_mlp)))));
  if (count == 0) {
    d.order([&](std::int64_t) { return dense; });
    return;
  }
  const std::int64_t width = size_of(json, "moe_intermediate_size", SizeLimits::ffn_hidden);
  const std::int64_t shared = size_or(json, "n_shared_experts", 0, SizeLimits::experts);
  std::string modules = " " + std::string(gated_experts) + " mlp.gate=router";
  if (correction) {
    modules += fmt::format(" mlp.gate.e_score_correction_bias=tensor:{}+bare",
                           size_of(json, "n_routed_experts", SizeLimits::experts));
  }
  if (shared > 0) modules += " " + std::string(gated_shared);
  BlockKind moe = sized(d.block("moe", with_norms(attends + modules)));
  take_experts(d, moe, "n_routed_experts", "num_experts_per_tok", width);
  moe.shared_ffn = shared * width;
  const int sparse = d.add(std::move(moe));
  const std::int64_t first = json.optional_integer("first_k_dense_replace").value_or(0);
  const std::int64_t step = size_or(json, "moe_layer_freq", 1, SizeLimits::layers);
  d.order([&](std::int64_t i) { return i >= first && i % step == 0 ? sparse : dense; });
  if (json.optional_integer("num_nextn_predict_layers").value_or(0) > 0) {
    d.approximate(
        "num_nextn_predict_layers: the layers for multi-token prediction are neither counted nor "
        "run, as in transformers");
  }
}

}  // namespace

Read read_deepseek(const JsonReader& json) {
  Draft d(json, {.head_size = ""}, false);
  const std::string type = json.string("model_type", "deepseek_v2 or deepseek_v3");
  BlockKind sizes;
  const std::int64_t nope = size_of(json, "qk_nope_head_dim", SizeLimits::head_size);
  sizes.rope_size = size_of(json, "qk_rope_head_dim", SizeLimits::head_size);
  sizes.head_size = nope + sizes.rope_size;
  sizes.rotary = sizes.rope_size;
  sizes.value_size = size_of(json, "v_head_dim", SizeLimits::head_size);
  sizes.kv_rank = size_of(json, "kv_lora_rank", SizeLimits::hidden);
  sizes.q_rank = size_or(json, "q_lora_rank", 0, SizeLimits::hidden);
  d.kv_heads = d.heads;  // every head has keys of its own once they are made
  const std::string b = bias(json.boolean_or("attention_bias", false));
  std::string attends = sizes.q_rank > 0
                            ? "self_attn.q_a_proj=q_a" + b +
                                  " self_attn.q_a_layernorm=q_a_norm self_attn.q_b_proj=q_b"
                            : std::string("self_attn.q_proj=q");
  attends += " self_attn.kv_a_proj_with_mqa=kv_a" + b +
             " self_attn.kv_a_layernorm=kv_a_norm self_attn.kv_b_proj=kv_b self_attn.o_proj=o" + b;
  if (json.has("index_n_heads")) {
    const std::int64_t heads = size_of(json, "index_n_heads", SizeLimits::heads);
    const std::int64_t size = size_of(json, "index_head_dim", 1 << 12);
    const std::int64_t from = sizes.q_rank > 0 ? sizes.q_rank : d.hidden;
    attends += fmt::format(
        " self_attn.indexer.wq_b=linear:{}x{} self_attn.indexer.wk=linear:{}x{}"
        " self_attn.indexer.k_norm=norm:{}+bias self_attn.indexer.weights_proj=linear:{}x{}",
        heads * size, from, size, d.hidden, size, heads, d.hidden);
    d.approximate("index_topk: sparse attention is costed as attention to all tokens");
  }
  const std::string method = json.optional_string("topk_method").value_or("");
  const bool correction = type != "deepseek_v2" || method == "noaux_tc";
  order_deepseek(d, attends, correction, sizes);
  d.stack(embed, blocks, "model.norm=norm1", head_of(d));
  return std::move(d).finish();
}

// glm4_moe, and the first DeepSeek MoE.
Read read_glm4_moe(const JsonReader& json) {
  Draft d(json);
  const bool b = json.boolean_or("attention_bias", false);
  const bool glm = json.string("model_type", "glm4_moe or deepseek") == "glm4_moe";
  const bool head_norms = glm && json.boolean_or("use_qk_norm", false);
  BlockKind sizes;
  sizes.head_size = sizes.value_size = d.head_size;
  sizes.rotary = glm ? d.head_size / 2 : d.head_size;
  order_deepseek(d, attention(b, !glm && b, head_norms), glm, sizes);
  d.stack(embed, blocks, "model.norm=norm1", head_of(d));
  return std::move(d).finish();
}

Read read_gpt_oss(const JsonReader& json) {
  Draft d(json);
  const bool b = json.boolean_or("attention_bias", true);
  BlockKind moe = d.block(
      "moe",
      with_norms(fmt::format("self_attn.sinks=tensor:{}+bare ", d.heads) + attention(b, b, false) +
                 " mlp.router=router+bias mlp.experts.gate_up_proj=experts_gate_up+bare"
                 " mlp.experts.gate_up_proj_bias=experts_gate_up_bias+bare"
                 " mlp.experts.down_proj=experts_down+bare"
                 " mlp.experts.down_proj_bias=experts_down_bias+bare"));
  take_experts(d, moe, first_of(json, "num_local_experts", "num_experts"),
               first_of(json, "num_experts_per_tok", "experts_per_token"), d.ffn);
  d.add(std::move(moe));
  d.order([](std::int64_t) { return 0; });
  d.typed_windows(size_or(json, "sliding_window", 128, SizeLimits::max_positions),
                  [](std::int64_t i) { return i % 2 == 0; });
  d.stack(embed, blocks, "model.norm=norm1", head_of(d));
  return std::move(d).finish();
}

Read read_llama4(const JsonReader& json) {
  Draft d(json);
  const bool b = json.boolean_or("attention_bias", false);
  const std::string attends = attention(b, b, false);
  BlockKind moe =
      d.block("moe", with_norms(attends + " feed_forward.experts.gate_up_proj=experts_gate_up+bare"
                                          " feed_forward.experts.down_proj=experts_down+bare"
                                          " feed_forward.router=router"
                                          " feed_forward.shared_expert.gate_proj=shared_gate"
                                          " feed_forward.shared_expert.up_proj=shared_up"
                                          " feed_forward.shared_expert.down_proj=shared_down"));
  take_experts(d, moe, "num_local_experts", "num_experts_per_tok", d.ffn);
  moe.shared_ffn = d.ffn;
  const int sparse = d.add(std::move(moe));
  const std::int64_t step = size_or(json, "interleave_moe_layer_step", 1, SizeLimits::layers);
  std::vector<std::int64_t> named = json.integers("moe_layers");
  const auto is_sparse = [&](std::int64_t i) {
    return named.empty() ? (i + 1) % step == 0
                         : std::find(named.begin(), named.end(), i) != named.end();
  };
  int dense = sparse;
  bool all = true;
  for (std::int64_t i = 0; i < d.layers; ++i) all = all && is_sparse(i);
  if (!all) {
    d.ffn = size_of(json, "intermediate_size_mlp", SizeLimits::ffn_hidden);
    dense = d.add(
        d.block("dense", with_norms(attends + " feed_forward.gate_proj=gate feed_forward.up_proj=up"
                                              " feed_forward.down_proj=down")));
  }
  d.order([&](std::int64_t i) { return is_sparse(i) ? sparse : dense; });
  d.typed_windows(
      size_or(json, "attention_chunk_size", 8192, SizeLimits::max_positions),
      [](std::int64_t i) { return (i + 1) % 4 != 0; }, true);
  d.stack(embed, blocks, "model.norm=norm1", head_of(d));
  return std::move(d).finish();
}

}  // namespace stepcast::hf
