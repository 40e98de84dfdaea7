#pragma once
// A module of a layer: its name in the checkpoint, and what part it plays. A layer is a list of
// modules in the order in which PyTorch registers them, which is the order of DDP's buckets; what
// runs follows from the parts. The list is written as one line of text:
//
//   self_attn.q_proj=q+bias self_attn.k_proj=k self_attn.v_proj=v self_attn.o_proj=o
//   mlp.gate_proj=gate mlp.up_proj=up mlp.down_proj=down input_layernorm=norm1
//   post_attention_layernorm=norm2
//
//   NAME=PART         a Linear or a norm: NAME.weight, of the size that the part has in this block
//   ...+bias          with NAME.bias
//   ...+wide          q_norm, k_norm: over all heads at once instead of over each
//   ...+bare          the tensor is NAME itself, not NAME.weight
//   NAME=PART:8x4     a part whose shape does not follow from the block: linear, tensor, norm
//   -=PART            something that runs and has no parameters (OLMo's norms)
//   experts.*.w1=...  once for each expert; neighbours with a star repeat together
//
// A module's own nn.Parameter is registered before its children's, wherever __init__ makes it.
// Tested by tests/unit/models/modules_test.cpp.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stepcast {

enum class Part : std::uint8_t {
  // norms: before and behind the branches
  norm1,
  norm2,
  post1,
  post2,
  cross_norm,
  // attention; q_a to kv_b are multi-head latent attention's
  q,
  k,
  v,
  qkv,
  o,
  q_norm,
  k_norm,
  q_a,
  q_a_norm,
  q_b,
  kv_a,
  kv_a_norm,
  kv_b,
  // attention to the encoder's output
  cross_q,
  cross_k,
  cross_v,
  cross_o,
  // MLP; experts of one tensor each, or of all in one
  gate,
  up,
  gate_up,
  down,
  router,
  expert_gate,
  expert_up,
  expert_down,
  experts_gate_up,
  experts_down,
  experts_gate_up_bias,
  experts_down_bias,
  shared_gate,
  shared_up,
  shared_down,
  shared_switch,
  // of any shape
  linear,
  tensor,
  norm,
  // first and last layers
  tokens,
  positions,
  types,
  project_in,
  project_out,
  head,
  count
};

struct Module {
  std::string name;  // "-": none
  Part part = Part::tensor;
  bool bias = false;
  bool wide = false;
  bool bare = false;
  std::vector<std::int64_t> shape;  // linear: out, in; empty: follows from the block
};

std::string_view to_string(Part part);

struct ModuleProblem {
  std::string word;     // the module's text
  std::string message;  // "'kq' is no part; accepted: ..."
};

// On failure says which word is wrong.
std::optional<ModuleProblem> parse_modules(std::string_view text, std::vector<Module>& modules);
// For lists of our own: asserts that they are right.
std::vector<Module> modules_of(std::string_view text);
std::string to_text(const std::vector<Module>& modules);

}  // namespace stepcast
