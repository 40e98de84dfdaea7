// Decoders whose layers are not all attention: state-space layers (Mamba) and gated linear
// attention. Their parameters are counted exactly, their projections are products, and what lies
// between (convolution, scan) is a rule of thumb, which every forecast says.
//
//   jamba                Mamba 1 or attention, every other MLP a mixture of experts
//   nemotron_h, mamba2   one mixer a layer: M Mamba 2, * attention, - MLP
//   qwen3_next, qwen3_5  three layers of four gated delta nets; attention makes a gate with q
//
// Source: modeling_jamba.py, modeling_mamba2.py, modeling_qwen3_next.py of transformers 4.x,
// modeling_nemotron_h.py on the hub. Tested by tests/unit/models/hf_families_test.cpp.

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "models/hf_read.hpp"

namespace stepcast::hf {
namespace {

constexpr std::int64_t most_state = 1 << 20;

void say_scan(Draft& d) {
  d.approximate(
      "state-space and linear-attention layers: convolution and scan are costed by memory traffic "
      "alone, a rule of thumb");
}

// Mamba 2's modules. Its own parameters are registered before its children.
std::string mamba2_modules(const std::string& prefix, std::int64_t hidden, std::int64_t heads,
                           std::int64_t head_size, std::int64_t groups, std::int64_t state,
                           std::int64_t kernel, bool biased, bool conv_biased) {
  const std::int64_t inner = heads * head_size;
  const std::int64_t channels = inner + 2 * groups * state;
  const std::string b = bias(biased);
  return fmt::format(
      "{0}dt_bias=tensor:{1}+bare {0}A_log=tensor:{1}+bare {0}D=tensor:{1}+bare"
      " {0}conv1d=tensor:{2}x1x{3}{4} {0}in_proj=linear:{5}x{6}{7} {0}norm=norm:{8}"
      " {0}out_proj=linear:{6}x{8}{7}",
      prefix, heads, channels, kernel, bias(conv_biased), inner + channels + heads, hidden, b,
      inner);
}

}  // namespace

Read read_jamba(const JsonReader& json) {
  Draft d(json);
  const std::int64_t inner = size_or(json, "mamba_expand", 2, 64) * d.hidden;
  const std::int64_t state = size_or(json, "mamba_d_state", 16, most_state);
  const std::int64_t kernel = size_or(json, "mamba_d_conv", 4, 1024);
  std::int64_t rank = ceil_div(d.hidden, 16);
  if (json.has("mamba_dt_rank") && !json.is_string("mamba_dt_rank")) {
    rank = size_of(json, "mamba_dt_rank", most_state);
  }
  const std::string b = bias(json.boolean_or("mamba_proj_bias", false));
  const std::string mamba = fmt::format(
      "mamba.A_log=tensor:{0}x{1}+bare mamba.D=tensor:{0}+bare mamba.conv1d=tensor:{0}x1x{2}{3}"
      " mamba.in_proj=linear:{4}x{5}{6} mamba.x_proj=linear:{7}x{0} "
      "mamba.dt_proj=linear:{0}x{8}+bias"
      " mamba.out_proj=linear:{5}x{0}{6} mamba.dt_layernorm=norm:{8} mamba.b_layernorm=norm:{1}"
      " mamba.c_layernorm=norm:{1}",
      inner, state, kernel, bias(json.boolean_or("mamba_conv_bias", true)), 2 * inner, d.hidden, b,
      rank + 2 * state, rank);
  const std::string attends =
      "self_attn.q_proj=q self_attn.k_proj=k self_attn.v_proj=v self_attn.o_proj=o";
  const std::string norms = " input_layernorm=norm1 pre_ff_layernorm=norm2";
  const std::string dense =
      " feed_forward.gate_proj=gate feed_forward.up_proj=up feed_forward.down_proj=down";
  const std::string sparse =
      " feed_forward.router=router feed_forward.experts.*.gate_proj=expert_gate"
      " feed_forward.experts.*.up_proj=expert_up feed_forward.experts.*.down_proj=expert_down";
  const std::int64_t experts = size_or(json, "num_experts", 16, SizeLimits::experts);
  const std::int64_t chosen = size_or(json, "num_experts_per_tok", 2, experts);
  int kinds[2][2] = {{-1, -1}, {-1, -1}};  // [attention][experts]
  const auto kind = [&](bool is_attention, bool is_sparse) {
    int& known = kinds[is_attention ? 1 : 0][is_sparse ? 1 : 0];
    if (known >= 0) return known;
    BlockKind k =
        d.block(std::string(is_attention ? "attention" : "mamba") + (is_sparse ? "-moe" : "-dense"),
                (is_attention ? attends : mamba) + (is_sparse ? sparse : dense) + norms);
    k.rotary = 0;
    if (!is_attention) {
      k.heads = k.kv_heads = 0;
      k.state = inner;
    }
    if (is_sparse) {
      k.experts = experts;
      k.experts_per_token = chosen;
      k.expert_ffn = d.ffn;
    }
    return known = d.add(std::move(k));
  };
  const auto every = [&](std::string_view period, std::int64_t usual_period,
                         std::string_view offset, std::int64_t usual_offset, std::int64_t layer) {
    const std::int64_t p = size_or(json, period, usual_period, SizeLimits::layers);
    return layer % p == json.optional_integer(offset).value_or(usual_offset);
  };
  d.order([&](std::int64_t i) {
    return kind(every("attn_layer_period", 8, "attn_layer_offset", 4, i),
                experts > 1 && every("expert_layer_period", 2, "expert_layer_offset", 1, i));
  });
  say_scan(d);
  d.stack("model.embed_tokens=tokens", "model.layers.", "model.final_layernorm=norm1", head_of(d));
  return std::move(d).finish();
}

Read read_nemotron_h(const JsonReader& json) {
  Draft d(json, {.head_size = first_of(json, "attention_head_dim", "head_dim")}, false);
  const std::string pattern =
      json.string("hybrid_override_pattern", "a letter a layer: M, * and -");
  if (static_cast<std::int64_t>(pattern.size()) != d.layers) {
    throw InputError(json.where("hybrid_override_pattern"),
                     fmt::format("names {} layers; accepted: as many as there are, {}",
                                 pattern.size(), d.layers));
  }
  const std::size_t odd = pattern.find_first_not_of("M*-");
  if (odd != std::string::npos) {
    throw InputError(
        json.where("hybrid_override_pattern"),
        fmt::format("'{}' is no kind of layer; accepted: M, * and -", pattern.substr(odd, 1)));
  }
  const std::int64_t heads = size_of(json, "mamba_num_heads", SizeLimits::heads);
  const std::int64_t size = size_of(json, "mamba_head_dim", SizeLimits::head_size);
  BlockKind mamba = d.block(
      "mamba", "norm=norm1 " + mamba2_modules("mixer.", d.hidden, heads, size,
                                              size_or(json, "n_groups", 8, SizeLimits::heads),
                                              size_or(json, "ssm_state_size", 128, most_state),
                                              size_or(json, "conv_kernel", 4, 1024),
                                              json.boolean_or("mamba_proj_bias", false) ||
                                                  json.boolean_or("use_bias", false),
                                              json.boolean_or("use_conv_bias", true)));
  mamba.heads = mamba.kv_heads = 0;
  mamba.state = heads * size;
  const std::string b = bias(json.boolean_or("attention_bias", false));
  BlockKind attention = d.block("attention", "norm=norm1 mixer.q_proj=q" + b + " mixer.k_proj=k" +
                                                 b + " mixer.v_proj=v" + b + " mixer.o_proj=o" + b);
  attention.rotary = 0;
  const std::string f = bias(json.boolean_or("mlp_bias", false));
  BlockKind mlp = d.block("mlp", "norm=norm1 mixer.up_proj=up" + f + " mixer.down_proj=down" + f);
  mlp.heads = mlp.kv_heads = 0;
  const int kinds[] = {d.add(std::move(mamba)), d.add(std::move(attention)), d.add(std::move(mlp))};
  d.order([&](std::int64_t i) {
    const char c = pattern[static_cast<std::size_t>(i)];
    return kinds[c == 'M' ? 0 : c == '*' ? 1 : 2];
  });
  say_scan(d);
  d.stack("backbone.embeddings=tokens", "backbone.layers.", "backbone.norm_f=norm1", head_of(d));
  return std::move(d).finish();
}

Read read_mamba(const JsonReader& json) {
  Draft::Keys keys;
  keys.hidden = first_of(json, "hidden_size", "d_model");
  keys.layers = first_of(json, "num_hidden_layers", "n_layer");
  keys.heads = keys.hidden;  // no heads: a head an element
  keys.kv_heads = "";
  keys.head_size = "";
  keys.ffn = "";
  keys.positions = "";
  const std::int64_t width = size_of(json, keys.hidden, SizeLimits::heads);
  Draft d(json, keys, true);
  const std::int64_t inner = size_or(
      json, "intermediate_size", size_or(json, "expand", 2, 64) * width, SizeLimits::ffn_hidden);
  const std::int64_t state = size_or(json, "state_size", 16, most_state);
  const std::int64_t rank = json.is_string("time_step_rank")
                                ? ceil_div(width, 16)
                                : size_or(json, "time_step_rank", ceil_div(width, 16), most_state);
  const std::string b = bias(json.boolean_or("use_bias", false));
  BlockKind k = d.block(
      "mamba", fmt::format("norm=norm1 mixer.A_log=tensor:{0}x{1}+bare mixer.D=tensor:{0}+bare"
                           " mixer.conv1d=tensor:{0}x1x{2}{3} mixer.in_proj=linear:{4}x{5}{6}"
                           " mixer.x_proj=linear:{7}x{0} mixer.dt_proj=linear:{0}x{8}+bias"
                           " mixer.out_proj=linear:{5}x{0}{6}",
                           inner, state, size_or(json, "conv_kernel", 4, 1024),
                           bias(json.boolean_or("use_conv_bias", true)), 2 * inner, width, b,
                           rank + 2 * state, rank));
  k.heads = k.kv_heads = 0;
  k.state = inner;
  d.add(std::move(k));
  say_scan(d);
  d.stack("backbone.embeddings=tokens", "backbone.layers.", "backbone.norm_f=norm1", head_of(d));
  return std::move(d).finish();
}

Read read_mamba2(const JsonReader& json) {
  Draft d(
      json,
      {.heads = "num_heads", .kv_heads = "", .head_size = "head_dim", .ffn = "", .positions = ""},
      false);
  BlockKind k = d.block(
      "mamba", "norm=norm1 " + mamba2_modules("mixer.", d.hidden, d.heads, d.head_size,
                                              size_or(json, "n_groups", 8, SizeLimits::heads),
                                              size_or(json, "state_size", 128, most_state),
                                              size_or(json, "conv_kernel", 4, 1024),
                                              json.boolean_or("use_bias", false),
                                              json.boolean_or("use_conv_bias", true)));
  k.state = d.heads * d.head_size;
  k.heads = k.kv_heads = 0;
  d.add(std::move(k));
  say_scan(d);
  d.stack("backbone.embeddings=tokens", "backbone.layers.", "backbone.norm_f=norm1", head_of(d));
  return std::move(d).finish();
}

Read read_qwen3_next(const JsonReader& json) {
  const bool next = json.string("model_type", "qwen3_next").starts_with("qwen3_next");
  const bool sparse = json.optional_integer("num_experts").value_or(0) > 1;
  Draft d(json, {.ffn = sparse ? "" : "intermediate_size"}, false);
  const std::int64_t key_heads = size_of(json, "linear_num_key_heads", SizeLimits::heads);
  const std::int64_t key_size = size_of(json, "linear_key_head_dim", SizeLimits::head_size);
  const std::int64_t value_heads = size_of(json, "linear_num_value_heads", SizeLimits::heads);
  const std::int64_t value_size = size_of(json, "linear_value_head_dim", SizeLimits::head_size);
  const std::int64_t kernel = size_or(json, "linear_conv_kernel_dim", 4, 1024);
  const std::int64_t keys_width = key_heads * key_size;
  const std::int64_t values_width = value_heads * value_size;
  const std::string in =
      next ? fmt::format(
                 " linear_attn.in_proj_qkvz=linear:{}x{} linear_attn.in_proj_ba=linear:{}x{}",
                 2 * keys_width + 2 * values_width, d.hidden, 2 * value_heads, d.hidden)
           : fmt::format(
                 " linear_attn.in_proj_qkv=linear:{0}x{1} linear_attn.in_proj_z=linear:{2}x{1}"
                 " linear_attn.in_proj_b=linear:{3}x{1} linear_attn.in_proj_a=linear:{3}x{1}",
                 2 * keys_width + values_width, d.hidden, values_width, value_heads);
  const std::string delta = fmt::format(
      "linear_attn.dt_bias=tensor:{0}+bare linear_attn.A_log=tensor:{0}+bare"
      " linear_attn.conv1d=tensor:{1}x1x{2}{3} linear_attn.norm=norm:{4}"
      " linear_attn.out_proj=linear:{5}x{6}",
      value_heads, 2 * keys_width + values_width, kernel, in, value_size, d.hidden, values_width);
  const std::string b = bias(json.boolean_or("attention_bias", false));
  const std::string attends = "self_attn.q_proj=q" + b + " self_attn.k_proj=k" + b +
                              " self_attn.v_proj=v" + b + " self_attn.o_proj=o" + b +
                              " self_attn.q_norm=q_norm self_attn.k_norm=k_norm";
  const std::string mlp =
      sparse ? " mlp.gate=router mlp.experts.*.gate_proj=expert_gate"
               " mlp.experts.*.up_proj=expert_up mlp.experts.*.down_proj=expert_down"
               " mlp.shared_expert.gate_proj=shared_gate mlp.shared_expert.up_proj=shared_up"
               " mlp.shared_expert.down_proj=shared_down mlp.shared_expert_gate=shared_switch"
             : " mlp.gate_proj=gate mlp.up_proj=up mlp.down_proj=down";
  const std::string norms = " input_layernorm=norm1 post_attention_layernorm=norm2";
  const auto with_experts = [&](BlockKind k) {
    if (!sparse) return k;
    k.experts = size_of(json, "num_experts", SizeLimits::experts);
    k.experts_per_token = size_of(json, "num_experts_per_tok", k.experts);
    k.expert_ffn = size_of(json, "moe_intermediate_size", SizeLimits::ffn_hidden);
    k.shared_ffn = size_of(json, "shared_expert_intermediate_size", SizeLimits::ffn_hidden);
    return k;
  };
  BlockKind linear = with_experts(d.block("linear", delta + mlp + norms));
  linear.heads = linear.kv_heads = 0;
  linear.state = values_width;
  BlockKind full = with_experts(d.block("full", attends + mlp + norms));
  full.query_gate = json.boolean_or("attn_output_gate", true);
  full.rotary = d.head_size / 4;
  const int kinds[] = {d.add(std::move(linear)), d.add(std::move(full))};
  const std::vector<std::string> types = d.layer_types();
  const std::int64_t interval = size_or(json, "full_attention_interval", 4, SizeLimits::layers);
  d.order([&](std::int64_t i) {
    const bool is_full = types.empty() ? (i + 1) % interval == 0
                                       : types[static_cast<std::size_t>(i)] == "full_attention";
    return kinds[is_full ? 1 : 0];
  });
  say_scan(d);
  if (json.optional_integer("mtp_num_hidden_layers").value_or(0) > 0) {
    d.approximate(
        "mtp_num_hidden_layers: the layers for multi-token prediction are neither counted nor run, "
        "as in transformers");
  }
  d.stack("model.embed_tokens=tokens", "model.layers.", "model.norm=norm1", head_of(d));
  return std::move(d).finish();
}

}  // namespace stepcast::hf
