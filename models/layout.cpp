#include "models/layout.hpp"

#include "base/error.hpp"

namespace stepcast {
namespace {

class Lister {
 public:
  Lister() { layout_.index.fill(-1); }

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
    layout_.index[static_cast<std::size_t>(role)] = layout_.size;
    layout_.slots[static_cast<std::size_t>(layout_.size)] = Slot{role, suffix, rows, columns};
    ++layout_.size;
  }

  const BlockLayout& layout() const { return layout_; }

 private:
  BlockLayout layout_;
};

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
  list.linear(Role::gate_weight, Role::gate_bias, "mlp.gate_proj.weight", "mlp.gate_proj.bias",
              a.hidden, a.ffn_hidden, a.mlp_bias);
  list.linear(Role::up_weight, Role::up_bias, "mlp.up_proj.weight", "mlp.up_proj.bias", a.hidden,
              a.ffn_hidden, a.mlp_bias);
  list.linear(Role::down_weight, Role::down_bias, "mlp.down_proj.weight", "mlp.down_proj.bias",
              a.ffn_hidden, a.hidden, a.mlp_bias);
  list.norm(Role::norm1_weight, Role::norm1_bias, "input_layernorm.weight", "", a.hidden, false);
  list.norm(Role::norm2_weight, Role::norm2_bias, "post_attention_layernorm.weight", "", a.hidden,
            false);
  return list.layout();
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
  return list.layout();
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
  return list.layout();
}

}  // namespace

BlockLayout block_layout(const Architecture& architecture) {
  switch (architecture.family) {
    case Family::llama: return llama(architecture);
    case Family::gpt2: return gpt2(architecture);
    case Family::mpt: return mpt(architecture);
  }
  STEPCAST_ASSERT(false, "a family without a layout");
}

}  // namespace stepcast
