#include "models/layout.hpp"

#include <utility>

#include "base/error.hpp"

namespace stepcast {
namespace {

class Lister {
 public:
  Lister() {
    layout_.index.fill(-1);
    layout_.slots.reserve(16);
  }

  // A Linear of PyTorch: weight [out, in], then its bias.
  void linear(Role weight, Role bias, std::string_view weight_name, std::string_view bias_name,
              std::int64_t in, std::int64_t out, bool has_bias) {
    add(weight, weight_name, out, in);
    if (has_bias) add(bias, bias_name, out, 0);
  }

  // A Conv1D of transformers: weight [in, out], then its bias.
  void conv1d(Role weight, Role bias, std::string_view weight_name, std::string_view bias_name,
              std::int64_t in, std::int64_t out, bool has_bias) {
    add(weight, weight_name, in, out);
    if (has_bias) add(bias, bias_name, out, 0);
  }

  void norm(Role weight, Role bias, std::string_view weight_name, std::string_view bias_name,
            std::int64_t size, bool has_bias) {
    add(weight, weight_name, size, 0);
    if (has_bias) add(bias, bias_name, size, 0);
  }

  void add(Role role, std::string_view suffix, std::int64_t rows, std::int64_t columns) {
    int& first = layout_.index[static_cast<std::size_t>(role)];
    if (first < 0) first = static_cast<int>(layout_.slots.size());
    layout_.slots.push_back(Slot{role, std::string(suffix), rows, columns});
  }

  BlockLayout take() && { return std::move(layout_); }

 private:
  BlockLayout layout_;
};

void add_experts(Lister& list, const Architecture& a) {
  list.add(Role::router_weight, "block_sparse_moe.gate.weight", a.experts, a.hidden);
  for (std::int64_t e = 0; e < a.experts; ++e) {
    const std::string expert = "block_sparse_moe.experts." + std::to_string(e);
    list.add(Role::gate_weight, expert + ".w1.weight", a.ffn_hidden, a.hidden);
    list.add(Role::down_weight, expert + ".w2.weight", a.hidden, a.ffn_hidden);
    list.add(Role::up_weight, expert + ".w3.weight", a.ffn_hidden, a.hidden);
  }
}

// llama and mixtral.
BlockLayout llama(const Architecture& a) {
  Lister list;
  const std::int64_t query = a.heads * a.head_size;
  const std::int64_t key = a.kv_heads * a.head_size;
  list.linear(Role::query_weight, Role::query_bias, "self_attn.q_proj.weight",
              "self_attn.q_proj.bias", a.hidden, query, a.attention_bias);
  list.linear(Role::key_weight, Role::key_bias, "self_attn.k_proj.weight", "self_attn.k_proj.bias",
              a.hidden, key, a.attention_bias);
  list.linear(Role::value_weight, Role::value_bias, "self_attn.v_proj.weight",
              "self_attn.v_proj.bias", a.hidden, key, a.attention_bias);
  list.linear(Role::output_weight, Role::output_bias, "self_attn.o_proj.weight",
              "self_attn.o_proj.bias", query, a.hidden, a.attention_output_bias);
  if (a.query_key_norm) {
    list.add(Role::query_norm, "self_attn.q_norm.weight", a.head_size, 0);
    list.add(Role::key_norm, "self_attn.k_norm.weight", a.head_size, 0);
  }
  if (a.experts > 0) {
    add_experts(list, a);
  } else {
    list.linear(Role::gate_weight, Role::gate_bias, "mlp.gate_proj.weight", "mlp.gate_proj.bias",
                a.hidden, a.ffn_hidden, a.mlp_bias);
    list.linear(Role::up_weight, Role::up_bias, "mlp.up_proj.weight", "mlp.up_proj.bias", a.hidden,
                a.ffn_hidden, a.mlp_bias);
    list.linear(Role::down_weight, Role::down_bias, "mlp.down_proj.weight", "mlp.down_proj.bias",
                a.ffn_hidden, a.hidden, a.mlp_bias);
  }
  list.norm(Role::norm1_weight, Role::norm1_bias, "input_layernorm.weight", "", a.hidden, false);
  list.norm(Role::norm2_weight, Role::norm2_bias, "post_attention_layernorm.weight", "", a.hidden,
            false);
  return std::move(list).take();
}

BlockLayout gpt2(const Architecture& a) {
  Lister list;
  const std::int64_t query = a.heads * a.head_size;
  const std::int64_t key = a.kv_heads * a.head_size;
  list.norm(Role::norm1_weight, Role::norm1_bias, "ln_1.weight", "ln_1.bias", a.hidden,
            a.norm_bias);
  list.conv1d(Role::qkv_weight, Role::qkv_bias, "attn.c_attn.weight", "attn.c_attn.bias", a.hidden,
              query + 2 * key, a.attention_bias);
  list.conv1d(Role::output_weight, Role::output_bias, "attn.c_proj.weight", "attn.c_proj.bias",
              query, a.hidden, a.attention_output_bias);
  list.norm(Role::norm2_weight, Role::norm2_bias, "ln_2.weight", "ln_2.bias", a.hidden,
            a.norm_bias);
  list.conv1d(Role::up_weight, Role::up_bias, "mlp.c_fc.weight", "mlp.c_fc.bias", a.hidden,
              a.ffn_hidden, a.mlp_bias);
  list.conv1d(Role::down_weight, Role::down_bias, "mlp.c_proj.weight", "mlp.c_proj.bias",
              a.ffn_hidden, a.hidden, a.mlp_bias);
  return std::move(list).take();
}

BlockLayout mpt(const Architecture& a) {
  Lister list;
  const std::int64_t query = a.heads * a.head_size;
  const std::int64_t key = a.kv_heads * a.head_size;
  list.norm(Role::norm1_weight, Role::norm1_bias, "norm_1.weight", "norm_1.bias", a.hidden,
            a.norm_bias);
  list.linear(Role::qkv_weight, Role::qkv_bias, "attn.Wqkv.weight", "attn.Wqkv.bias", a.hidden,
              query + 2 * key, a.attention_bias);
  list.linear(Role::output_weight, Role::output_bias, "attn.out_proj.weight", "attn.out_proj.bias",
              query, a.hidden, a.attention_output_bias);
  list.norm(Role::norm2_weight, Role::norm2_bias, "norm_2.weight", "norm_2.bias", a.hidden,
            a.norm_bias);
  list.linear(Role::up_weight, Role::up_bias, "ffn.up_proj.weight", "ffn.up_proj.bias", a.hidden,
              a.ffn_hidden, a.mlp_bias);
  list.linear(Role::down_weight, Role::down_bias, "ffn.down_proj.weight", "ffn.down_proj.bias",
              a.ffn_hidden, a.hidden, a.mlp_bias);
  return std::move(list).take();
}

// bert and vit name their projections alike.
void add_encoder_attention(Lister& list, const Architecture& a, const std::string& prefix) {
  const auto linear = [&](Role weight, Role bias, const char* name) {
    list.linear(weight, bias, prefix + name + ".weight", prefix + name + ".bias", a.hidden,
                a.hidden, a.attention_bias);
  };
  linear(Role::query_weight, Role::query_bias, "query");
  linear(Role::key_weight, Role::key_bias, "key");
  linear(Role::value_weight, Role::value_bias, "value");
  list.linear(Role::output_weight, Role::output_bias, "attention.output.dense.weight",
              "attention.output.dense.bias", a.hidden, a.hidden, a.attention_output_bias);
}

void add_encoder_mlp(Lister& list, const Architecture& a) {
  list.linear(Role::up_weight, Role::up_bias, "intermediate.dense.weight",
              "intermediate.dense.bias", a.hidden, a.ffn_hidden, a.mlp_bias);
  list.linear(Role::down_weight, Role::down_bias, "output.dense.weight", "output.dense.bias",
              a.ffn_hidden, a.hidden, a.mlp_bias);
}

BlockLayout bert(const Architecture& a) {
  Lister list;
  add_encoder_attention(list, a, "attention.self.");
  list.norm(Role::norm1_weight, Role::norm1_bias, "attention.output.LayerNorm.weight",
            "attention.output.LayerNorm.bias", a.hidden, a.norm_bias);
  add_encoder_mlp(list, a);
  list.norm(Role::norm2_weight, Role::norm2_bias, "output.LayerNorm.weight",
            "output.LayerNorm.bias", a.hidden, a.norm_bias);
  return std::move(list).take();
}

BlockLayout vit(const Architecture& a) {
  Lister list;
  add_encoder_attention(list, a, "attention.attention.");
  add_encoder_mlp(list, a);
  list.norm(Role::norm1_weight, Role::norm1_bias, "layernorm_before.weight",
            "layernorm_before.bias", a.hidden, a.norm_bias);
  list.norm(Role::norm2_weight, Role::norm2_bias, "layernorm_after.weight", "layernorm_after.bias",
            a.hidden, a.norm_bias);
  return std::move(list).take();
}

BlockLayout mlp(const Architecture& a) {
  Lister list;
  list.linear(Role::up_weight, Role::up_bias, "up.weight", "up.bias", a.hidden, a.ffn_hidden, true);
  list.linear(Role::down_weight, Role::down_bias, "down.weight", "down.bias", a.ffn_hidden,
              a.hidden, true);
  return std::move(list).take();
}

}  // namespace

BlockLayout block_layout(const Architecture& architecture) {
  switch (architecture.family) {
    case Family::llama:
    case Family::mixtral: return llama(architecture);
    case Family::gpt2: return gpt2(architecture);
    case Family::mpt: return mpt(architecture);
    case Family::bert: return bert(architecture);
    case Family::vit: return vit(architecture);
    case Family::mlp: return mlp(architecture);
    case Family::resnet:  // its blocks are lists of convolutions, resnet.hpp
    case Family::composed: break;
  }
  STEPCAST_ASSERT(false, "a family without a layout");
}

}  // namespace stepcast
