#pragma once
// Which parameters one transformer block has, in the order in which its PyTorch module registers
// them. One list serves the builder (names, shapes) and the work (indices of what becomes ready).
//
//   llama  q k v o, [q_norm k_norm], gate up down, input_layernorm, post_attention_layernorm
//   gpt2   ln_1, c_attn, c_proj, ln_2, c_fc, c_proj (Conv1D: weights are [in, out])
//   mpt    norm_1, Wqkv, out_proj, norm_2, up_proj, down_proj
//
// Source of names and order: modeling_llama.py, modeling_qwen2.py, modeling_qwen3.py,
// modeling_gpt2.py (transformers 4.x) and llm-foundry's blocks.py. Tested by
// tests/unit/models/counts_test.cpp.

#include <array>
#include <cstdint>
#include <string_view>

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
  gate_weight,
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
  std::string_view suffix;   // "self_attn.q_proj.weight"
  std::int64_t rows = 0;     // dim 0
  std::int64_t columns = 0;  // dim 1; 0 for a vector
};

struct BlockLayout {
  std::array<Slot, role_count> slots{};  // the first `size` are used
  int size = 0;
  std::array<int, role_count> index{};  // of a role among the slots; -1 where absent

  int at(Role role) const { return index[static_cast<std::size_t>(role)]; }
};

BlockLayout block_layout(const Architecture& architecture);

// gpt2 and mpt: one fused qkv projection, GELU between two projections; llama: q, k, v apart and a
// gated MLP.
constexpr bool has_fused_qkv(Family family) { return family != Family::llama; }
constexpr bool has_gated_mlp(Family family) { return family == Family::llama; }
constexpr bool has_rotary(Family family) { return family == Family::llama; }
constexpr bool has_rms_norm(Family family) { return family == Family::llama; }

}  // namespace stepcast
