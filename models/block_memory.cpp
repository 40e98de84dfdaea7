// What one block keeps from forward to backward, and the most it needs besides.
//
// By name, in units of s b h elements of E bytes (E = 2: 16 bit), GPT with dropout and unfused
// attention, after Korthikanti et al. 2022 (arXiv 2205.05198), section 4:
//
//   inputs of both norms                  2 + 2
//   inputs of the qkv and up projections  2 + 2
//   q, k, v                               2 + 2 + 2
//   softmax, its mask, its result         (2 + 1 + 2) a s / h
//   input of the output projection        2
//   input and output of GELU              8 + 8
//   masks after both branches             1 + 1
//                                         34 + 5 a s / h
//
// Llama with fused attention, in bytes: s b h (12 + 4 k / a) + 8 s b f + 4 b a s, where 8 f is
// gate, up, silu and product, and the last term is FlashAttention's log-sum-exp. Statistics of
// norms (a few bytes a token) are left out, as in both formulas.
//
// Post-norm (bert) keeps the same: both sums and both norms' results, of which the second is the
// next block's input. Experts keep a row for each of a token's k choices, before and after.
//
// Tested by tests/unit/models/activations_test.cpp.

#include <algorithm>

#include "models/experts.hpp"
#include "models/fp8.hpp"
#include "models/layout.hpp"
#include "models/work_parts.hpp"

namespace stepcast {
namespace {

// Elements that autocast casts: weights and biases of the projections, not the norms'.
std::int64_t weight_elements(const BlockLayout& layout) {
  std::int64_t sum = 0;
  for (const Slot& slot : layout.slots) {
    switch (slot.role) {
      case Role::norm1_weight:
      case Role::norm1_bias:
      case Role::norm2_weight:
      case Role::norm2_bias:
      case Role::query_norm:
      case Role::key_norm: break;
      default: sum += slot.rows * std::max<std::int64_t>(slot.columns, 1);
    }
  }
  return sum;
}

}  // namespace

void block_memory(const Sizes& z, LayerWork& work) {
  const Architecture& a = *z.architecture;
  const Workload& w = *z.workload;
  const bool fused = w.fused_elementwise;
  const bool drops_scores = a.attention_dropout && !w.fused_attention;
  const std::int64_t width = z.tokens * z.hidden;  // elements of a hidden state

  const Bytes e = z.element;
  const bool gated = has_gated_mlp(a.family);
  const Bytes stream = z.stream * width;  // a state of the residual stream
  const Bytes hidden = e * width;         // a hidden state inside a branch
  const Bytes query = e * z.tokens * z.query;
  const Bytes keys_values = 2 * e * z.tokens * z.key;
  const Bytes inner = e * inner_elements(z);
  const Bytes routed = experts_kept(z);

  // What none keeps, by name.
  const Bytes norm_inputs = 2 * stream;
  const Bytes norm_outputs = 2 * hidden;  // inputs of the projections
  // Of a post-norm block's two, one is the input, which stays.
  Bytes norms_again = has_post_norm(a.family) ? hidden : norm_outputs;
  const Bytes projections = query + keys_values;
  const Bytes before_norms = a.query_key_norm ? query + keys_values / 2 : 0;
  // Fused: the log-sum-exp. Unfused: the softmax output; with dropout also its mask and result.
  // Autocast runs the softmax in fp32, and its 16-bit copy is one more where dropout makes none.
  Bytes softmax = 4 * z.tokens * a.heads;
  if (!w.fused_attention) {
    softmax = z.stream * z.scores;
    if (drops_scores) softmax += (e + 1) * z.scores;
    if (!drops_scores && z.casts) softmax += e * z.scores;
  }
  const Bytes masks = a.residual_dropout ? 2 * width : 0;
  const Bytes activation_inputs = (gated ? 2 : 1) * inner;
  Bytes activation_outputs = (gated && !fused ? 2 : 1) * inner;
  // Transformer Engine keeps fp8 copies in place of 16-bit inputs that nothing else asks for:
  // norms' results (of a post-norm block they are in the residual stream) and what the down
  // projection reads.
  const Fp8Bytes fp8 = z.fp8 == Fp8Recipe::none ? Fp8Bytes{} : fp8_bytes_of_block(z);
  const Bytes replaced_norms = (fp8.for_norm1 ? hidden : 0) + (fp8.for_norm2 ? hidden : 0);
  norms_again -= replaced_norms;
  if (fp8.for_inner) activation_outputs -= inner;
  const Bytes everything = norm_inputs + norm_outputs - replaced_norms + fp8.inputs + projections +
                           before_norms + softmax + query + masks + activation_inputs +
                           activation_outputs + routed;

  work.saved_activations = everything;
  if (w.checkpointing == Checkpointing::full) work.saved_activations = stream;
  if (w.checkpointing == Checkpointing::selective) {
    work.saved_activations -= w.fused_attention ? norms_again + activation_outputs : softmax;
  }
  // Results of the first, third, fifth and seventh product (q, v, gate, down) and of attention.
  // What down leaves no backward asks for: eager software keeps it all the same, a compiler sees
  // that.
  Bytes unused = 0;
  if (w.checkpointing == Checkpointing::selective_op) {
    unused = fused ? 0 : hidden;
    work.saved_activations =
        stream + query + keys_values / 2 + inner + (w.fused_attention ? query + softmax : 0);
  }
  work.recomputed_activations = everything - work.saved_activations;
  work.saved_activations += unused;
  const bool runs_again =
      w.checkpointing == Checkpointing::full || w.checkpointing == Checkpointing::selective_op;
  const Bytes copies =
      (z.casts ? e * (weight_elements(block_layout(a)) - fp8.elements) : 0) + fp8.weights;
  if (runs_again) {
    work.recomputed_activations += copies;
  } else {
    work.weight_copies = copies;
    work.saved_activations += copies;
  }
  work.output = stream;

  // Short-lived tensors. Forward: a branch's result before its residual, an fp32 norm's before its
  // cast; where little is kept, also what is alive at the busiest moment of attention or MLP.
  const Bytes scores = w.fused_attention ? 0 : z.stream * z.scores;
  const Bytes norm_result = z.casts && !fused ? stream : 0;
  work.forward_workspace = std::max({hidden, norm_result + norm_workspace(z, width), scores});
  if (w.checkpointing == Checkpointing::selective) {
    const Bytes dropped = w.fused_attention ? activation_outputs : softmax + scores;
    work.forward_workspace = std::max(work.forward_workspace, hidden + dropped);
  }
  if (runs_again) {
    const Bytes attention_alive = hidden + projections + query + softmax + scores;
    const Bytes mlp_alive = stream + hidden + (gated ? 3 : 2) * inner + routed;
    work.forward_workspace =
        std::max({attention_alive, mlp_alive, work.forward_workspace + stream}) + copies;
  }
  work.forward_workspace += fp8.forward_workspace;
  // Backward: the gradient that enters a branch where it is not the output's own, those of its
  // insides, and FlashAttention's fp32 sum of the queries' gradient or the gradients of the scores
  // and of the softmax.
  const Bytes extra = w.fused_attention ? 4 * z.tokens * z.query : 2 * scores;
  const Bytes entry = z.casts || a.residual_dropout ? hidden : 0;
  const Bytes attention_gradients = entry + query + projections + extra;
  const Bytes mlp_gradients = entry + (gated ? 3 : 2) * inner + routed;
  const Bytes norm_gradients = hidden + norm_result + norm_workspace(z, width);
  work.backward_workspace =
      std::max({attention_gradients, mlp_gradients, norm_gradients}) + fp8.backward_workspace;
}

}  // namespace stepcast
