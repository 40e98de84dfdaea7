#pragma once
// Which parameters one transformer block has, in the order in which its PyTorch module registers
// them. One list serves the builder (names, shapes) and the work (indices of what becomes ready).
//
//   llama  q k v o, [q_norm k_norm], gate up down, input_layernorm, post_attention_layernorm
//   gpt2   ln_1, c_attn, c_proj, ln_2, c_fc, c_proj (Conv1D: weights are [in, out])
//   mpt    norm_1, Wqkv, out_proj, norm_2, up_proj, down_proj
//   mixtral  q k v o, router, w1 w2 w3 (gate, down, up) of expert 0, of 1, ..., both norms
//   bert   query key value, output.dense and its LayerNorm, intermediate, output and its LayerNorm
//   vit    query key value, attention.output, intermediate, output, layernorm_before, _after
//
// Source of names and order: modeling_llama.py, modeling_qwen2.py, modeling_qwen3.py,
// modeling_gpt2.py, modeling_mixtral.py, modeling_bert.py, modeling_vit.py (transformers 4.x) and
// llm-foundry's blocks.py. Tested by tests/unit/models/counts_test.cpp.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "models/model.hpp"

namespace stepcast {

enum class Role : std::uint8_t {
  norm1_weight,
  norm1_bias,
  qkv_weight,  // fused projection
  qkv_bias,
  query_weight,  // separate projections
  query_bias,
  key_weight,
  key_bias,
  value_weight,
  value_bias,
  query_norm,
  key_norm,
  output_weight,
  output_bias,
  norm2_weight,
  norm2_bias,
  router_weight,
  gate_weight,  // of experts: the first one's
  gate_bias,
  up_weight,
  up_bias,
  down_weight,
  down_bias,
  count
};

inline constexpr std::size_t role_count = static_cast<std::size_t>(Role::count);

struct Slot {
  Role role = Role::count;
  std::string suffix;        // "self_attn.q_proj.weight"
  std::int64_t rows = 0;     // dim 0
  std::int64_t columns = 0;  // dim 1; 0 for a vector
};

struct BlockLayout {
  std::vector<Slot> slots;
  std::array<int, role_count> index{};  // of a role's first slot; -1 where absent

  int at(Role role) const { return index[static_cast<std::size_t>(role)]; }
};

BlockLayout block_layout(const Architecture& architecture);

// Tensors of one expert; expert e's are this far times e behind the first one's.
inline constexpr int expert_tensors = 3;

// gpt2 and mpt: one fused qkv projection; the others q, k, v apart. llama and mixtral: a gated MLP,
// rotary positions, RMSNorm; the others GELU between two projections and LayerNorm.
constexpr bool has_fused_qkv(Family family) {
  return family == Family::gpt2 || family == Family::mpt;
}
constexpr bool has_gated_mlp(Family family) {
  return family == Family::llama || family == Family::mixtral;
}
constexpr bool has_rotary(Family family) { return has_gated_mlp(family); }
constexpr bool has_rms_norm(Family family) { return has_gated_mlp(family); }
constexpr bool is_causal(Family family) { return has_gated_mlp(family) || has_fused_qkv(family); }
// Norms behind the residual additions instead of at the start of each branch.
constexpr bool has_post_norm(Family family) { return family == Family::bert; }

}  // namespace stepcast
