// What a composed block keeps from forward to backward, and what it runs again.

#include <algorithm>

#include "models/composed_block.hpp"

namespace stepcast {

void ComposedBlock::memory(LayerWork& work) const {
  const Bytes e = z_.element;
  const Bytes stream = z_.stream * width_;
  const Bytes hidden = e * width_;
  // As in block_memory.cpp: Transformer Engine's fp8 inputs in place of 16-bit ones.
  const Fp8Bytes& fp8 = tape_.fp8();
  const bool replaces = fp8.inputs > 0 && !has_experts();
  const Bytes replaced_norms = replaces && !post_norm() ? norm_outputs_ : 0;
  const Bytes replaced_products = replaces ? down_inputs_ : 0;
  const Bytes everything = tape_.kept() + fp8.inputs - replaced_norms - replaced_products;
  const Bytes activation_outputs = activation_outputs_ - replaced_products;
  const Bytes norms_again =
      (post_norm() ? std::min(hidden, norm_outputs_) : norm_outputs_) - replaced_norms;
  work.saved_activations = everything;
  if (w_.checkpointing == Checkpointing::full) work.saved_activations = stream;
  if (w_.checkpointing == Checkpointing::selective) {
    work.saved_activations -= w_.fused_attention ? norms_again + activation_outputs : softmax_;
  }
  work.recomputed_activations = everything - work.saved_activations;
  if (w_.checkpointing == Checkpointing::full) {
    work.recomputed_activations += tape_.copies();
  } else {
    work.weight_copies = tape_.copies();
    work.saved_activations += tape_.copies();
  }
  work.output = stream;

  const std::int64_t queries = z_.tokens * k_.heads * k_.head_size;
  const Bytes projections =
      e * (queries + z_.tokens * k_.kv_heads * (k_.head_size + k_.value_size));
  const Bytes results = e * z_.tokens * k_.heads * k_.value_size;
  const Bytes norm_result = z_.casts && !fused_ ? stream : 0;
  const Bytes norms = norm_result + norm_workspace(z_, width_);
  work.forward_workspace = std::max({hidden, norms, scores_});
  if (w_.checkpointing == Checkpointing::selective) {
    const Bytes dropped = w_.fused_attention ? activation_outputs : softmax_ + scores_;
    work.forward_workspace = std::max(work.forward_workspace, hidden + dropped);
  }
  if (w_.checkpointing == Checkpointing::full) {
    const Bytes attention_alive = hidden + projections + results + softmax_ + scores_;
    const Bytes mlp_alive = stream + hidden + alive_inner_ + routed_;
    work.forward_workspace =
        std::max({attention_alive, mlp_alive, work.forward_workspace + stream}) + tape_.copies();
  }
  work.forward_workspace += fp8.forward_workspace;
  const Bytes extra = w_.fused_attention ? 4 * queries : 2 * scores_;
  const Bytes entry = z_.casts || a_.residual_dropout ? hidden : 0;
  const Bytes attention_gradients = entry + results + projections + extra;
  const Bytes mlp_gradients = entry + alive_inner_ + routed_;
  work.backward_workspace =
      std::max({attention_gradients, mlp_gradients, hidden + norms}) + fp8.backward_workspace;
}

void ComposedBlock::recompute(LayerWork& work) const {
  switch (w_.checkpointing) {
    case Checkpointing::none: return;
    case Checkpointing::selective: work.recompute = w_.fused_attention ? again_ : core_; return;
    case Checkpointing::selective_op:  // refused
    case Checkpointing::full: break;
  }
  work.recompute = work.forward;
  if (!w_.recompute_early_stop || post_norm()) return;
  // The residuals, and the last product unless something behind it is kept (block_work.cpp).
  std::vector<Kernel>& list = work.recompute;
  for (int i = 0; i < residuals_ && list.size() > 1; ++i) list.pop_back();
  if (a_.residual_dropout || list.size() < 2) return;
  if (list.back().dtype == Dtype::fp8) return;  // runs to its end
  list.pop_back();
}

}  // namespace stepcast
