// What one layer does for one micro-batch: embedding, final norm and head here, blocks in
// block_work.cpp.
//
// The loss, eager: logits are cast to fp32, log_softmax keeps its fp32 output, backward fills an
// fp32 gradient for nll_loss and one for log_softmax, then casts. With T V logits of 2 bytes that
// is 10 T V bytes at most in forward (2 logits, 4 cast, 4 log-probabilities) and 12 in backward (4
// log-probabilities, 4 + 4 gradients). `fused_loss`: the 16-bit logits and a 16-bit gradient only.
//
// A tied head: its weight's gradient waits for the embedding, where autograd adds the two.
// Tested by tests/unit/models/work_test.cpp.

#include "base/error.hpp"
#include "models/work_parts.hpp"

namespace stepcast {
namespace {

struct Names {
  Name gather{"embedding"}, positions{"position_embedding"}, add{"embedding_add"};
  Name gather_backward{"embedding.backward"}, positions_backward{"position_embedding.backward"};
  Name tied{"tied_grad_add"};
  Name dropout{"embedding_dropout"}, dropout_backward{"embedding_dropout.backward"};
  NormNames norm{"final_norm"};
  LinearNames head{"lm_head"};
  Name to_fp32{"logits_to_fp32"}, from_fp32{"logits_grad_cast"};
  Name softmax{"log_softmax"}, softmax_backward{"log_softmax.backward"};
  Name loss{"nll_loss"}, loss_backward{"nll_loss.backward"};
  Name fused{"cross_entropy"}, fused_backward{"cross_entropy.backward"};
  Name tensor{"tensor"};
};

const Names& names() {
  static const Names instance;
  return instance;
}

constexpr Bytes id_bytes = 8;  // token ids and labels are int64

void embedding_work(const Sizes& z, LayerWork& work) {
  const Architecture& a = *z.architecture;
  const std::int64_t width = z.tokens * z.hidden;
  const std::int64_t table = z.vocabulary * z.hidden;
  work.forward.push_back(memory_bound(names().gather, z.dtype,
                                      z.parameter * width + id_bytes * z.tokens, z.stream * width));
  if (a.learned_positions) {
    const std::int64_t rows = z.seq * z.hidden;
    work.forward.push_back(
        memory_bound(names().positions, z.dtype, z.parameter * rows, z.stream * rows));
    work.forward.push_back(
        memory_bound(names().add, z.dtype, z.stream * (width + rows), z.stream * width));
  }
  if (a.embedding_dropout) {
    work.forward.push_back(dropout_forward(z, names().dropout, width, z.stream));
    work.backward.push_back(
        marks_nothing(dropout_backward(z, names().dropout_backward, width, z.stream)));
  }
  if (a.learned_positions) {
    // Sum over the sequences, then the table's gradient: zeros with rows added.
    const std::int64_t rows = z.seq * z.hidden;
    BackwardKernel& positions = work.backward.emplace_back();
    positions.kernel = memory_bound(
        names().positions_backward, z.dtype, z.stream * (width + rows) + id_bytes * z.seq,
        z.stream * rows + z.parameter * (a.max_positions * z.hidden + rows), 3);
    positions.ready.push_back(1);
  }
  // Zeros everywhere, then each token's row is read and added to.
  work.backward.push_back(marks_nothing(memory_bound(
      names().gather_backward, z.dtype, (z.stream + z.parameter) * width + 2 * id_bytes * z.tokens,
      z.parameter * (table + width), 2)));
  if (a.tied_embeddings) {
    work.backward.push_back(marks_nothing(
        memory_bound(names().tied, z.dtype, 2 * z.parameter * table, z.parameter * table)));
  }
  work.backward.back().ready.push_back(0);
  work.saved_activations = a.embedding_dropout ? width : 0;
  work.output = z.stream * width;
  work.forward_workspace = a.learned_positions || a.embedding_dropout ? z.stream * width : 0;
}

void final_norm_work(const Sizes& z, LayerWork& work) {
  const std::int64_t width = z.tokens * z.hidden;
  const Norm norm{names().norm, z.tokens, z.hidden,
                  z.stream,     0,        z.architecture->norm_bias ? 1 : -1};
  norm_forward(z, norm, work.forward);
  norm_backward(z, norm, work.backward);
  work.saved_activations = z.stream * width;
  work.output = z.element * width;
  work.forward_workspace = norm_workspace(z, width) + (z.stream - z.element) * width;
  work.backward_workspace = norm_workspace(z, width) + (z.stream - z.element) * width;
}

void loss_work(const Sizes& z, LayerWork& work) {
  const std::int64_t logits = z.tokens * z.vocabulary;
  if (z.workload->fused_loss) {
    // Log-sum-exp in fp32, one a token.
    work.forward.push_back(memory_bound(names().fused, z.dtype,
                                        z.element * logits + id_bytes * z.tokens, 4 * z.tokens));
    work.backward.push_back(marks_nothing(memory_bound(
        names().fused_backward, z.dtype, z.element * logits + 12 * z.tokens, z.element * logits)));
    work.saved_activations = z.element * logits + 4 * z.tokens;
    work.backward_workspace = z.element * logits;
    return;
  }
  const bool cast = z.element < 4;
  const Bytes copy = 4 * logits;
  if (cast) {
    work.forward.push_back(memory_bound(names().to_fp32, z.dtype, z.element * logits, copy));
  }
  work.forward.push_back(memory_bound(names().softmax, Dtype::fp32, copy, copy));
  work.forward.push_back(memory_bound(names().loss, Dtype::fp32, (4 + id_bytes) * z.tokens, 4));
  work.backward.push_back(marks_nothing(
      memory_bound(names().loss_backward, Dtype::fp32, id_bytes * z.tokens, copy, 2)));
  work.backward.push_back(
      marks_nothing(memory_bound(names().softmax_backward, Dtype::fp32, 2 * copy, copy)));
  if (cast) {
    work.backward.push_back(
        marks_nothing(memory_bound(names().from_fp32, z.dtype, copy, z.element * logits)));
  }
  work.saved_activations = copy;
  work.forward_workspace = cast ? z.element * logits + copy : copy;
  work.backward_workspace = 2 * copy;
}

void head_work(const Sizes& z, LayerWork& work) {
  const bool tied = z.architecture->tied_embeddings;
  const Linear head{names().head, z.hidden, z.vocabulary, tied ? -1 : 0, -1};
  linear_forward(z, head, work.forward);
  loss_work(z, work);
  linear_backward(z, head, work.backward);
  work.saved_activations += z.element * z.tokens * z.hidden;
  if (z.casts) {
    work.weight_copies = z.element * z.vocabulary * z.hidden;
    work.saved_activations += work.weight_copies;
  }
  work.output = 0;
}

// A plain tensor: nothing to compute, its gradient is ready when its turn comes.
LayerWork tensor_work(const Layer& layer) {
  LayerWork work;
  BackwardKernel& done = work.backward.emplace_back();
  done.kernel = memory_bound(names().tensor, Dtype::fp32, 0, 0, 0);
  for (int i = layer.parameter_count; i-- > 0;) done.ready.push_back(i);
  return work;
}

}  // namespace

LayerWork work_of(const Model& model, int layer, const Workload& workload) {
  STEPCAST_ASSERT(layer >= 0 && static_cast<std::size_t>(layer) < model.layers.size(),
                  "a layer of the model");
  const Layer& which = model.layers[static_cast<std::size_t>(layer)];
  if (model.architecture.layers == 0) return tensor_work(which);
  const Sizes sizes = sizes_of(model, workload);
  LayerWork work;
  switch (which.kind) {
    case LayerKind::embedding: embedding_work(sizes, work); break;
    case LayerKind::block: block_work(sizes, work); break;
    case LayerKind::final_norm: final_norm_work(sizes, work); break;
    case LayerKind::head: head_work(sizes, work); break;
  }
  return work;
}

}  // namespace stepcast
