// What one layer does for one micro-batch: a decoder's embedding, the final norm and heads here,
// transformer blocks in block_work.cpp, an encoder's ends in encoder_work.cpp, ResNets in
// resnet_work.cpp.
//
// The loss, eager: logits are cast to fp32, log_softmax keeps its fp32 output, backward fills an
// fp32 gradient for nll_loss and one for log_softmax, then casts. With T V logits of 2 bytes that
// is 10 T V bytes at most in forward (2 logits, 4 cast, 4 log-probabilities) and 12 in backward (4
// log-probabilities, 4 + 4 gradients). `fused_loss`: the 16-bit logits and a 16-bit gradient only.
//
// A tied head: its weight's gradient waits for the embedding, where autograd adds the two.
// Tested by tests/unit/models/work_test.cpp.

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "models/resnet.hpp"
#include "models/tape.hpp"
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

void head_work(const Sizes& z, LayerWork& work) {
  const bool tied = z.architecture->tied_embeddings;
  const Linear head{names().head, z.hidden, z.vocabulary, tied ? -1 : 0, -1};
  linear_forward(z, head, work.forward);
  loss_work(z, z.tokens, z.vocabulary, work);
  linear_backward(z, head, work.backward);
  work.saved_activations += z.element * z.tokens * z.hidden;
  if (z.casts) {
    work.weight_copies = z.element * z.vocabulary * z.hidden;
    work.saved_activations += work.weight_copies;
  }
}

// A plain tensor: nothing to compute, its gradient is ready when its turn comes.
LayerWork tensor_work(const Layer& layer) {
  LayerWork work;
  BackwardKernel& done = work.backward.emplace_back();
  done.kernel = memory_bound(names().tensor, Dtype::fp32, 0, 0, 0);
  for (int i = layer.parameter_count; i-- > 0;) done.ready.push_back(i);
  return work;
}

void decoder_layer(const Sizes& z, const Layer& layer, LayerWork& work) {
  switch (layer.kind) {
    case LayerKind::embedding: return embedding_work(z, work);
    case LayerKind::block: return block_work(z, work);
    case LayerKind::final_norm: return final_norm_work(z, work);
    case LayerKind::head: return head_work(z, work);
    case LayerKind::stem: break;
  }
  STEPCAST_ASSERT(false, "a layer that decoders do not have");
}

void encoder_layer(const Sizes& z, const Layer& layer, LayerWork& work) {
  const bool images = takes_images(z.architecture->family);
  switch (layer.kind) {
    case LayerKind::embedding:
      return images ? vit_embedding_work(z, work) : bert_embedding_work(z, work);
    case LayerKind::block: return block_work(z, work);
    case LayerKind::final_norm: return final_norm_work(z, work);
    case LayerKind::head: return images ? vit_head_work(z, work) : bert_head_work(z, work);
    case LayerKind::stem: break;
  }
  STEPCAST_ASSERT(false, "a layer that encoders do not have");
}

// Layer 0 is the stem, so block i is layer i + 1.
void resnet_layer(const Sizes& z, const Layer& layer, int number, LayerWork& work) {
  if (layer.kind == LayerKind::stem) return stem_work(z, work);
  if (layer.kind == LayerKind::head) return image_head_work(z, work);
  residual_work(z, number - 1, work);
}

void mlp_layer(const Sizes& z, const Layer& layer, LayerWork& work) {
  if (layer.kind == LayerKind::embedding) {
    embedding_work(z, work);
  } else if (layer.kind == LayerKind::block) {
    work = mlp_block_work(z);
  } else {
    head_work(z, work);
  }
}

// What one of k GPUs of a replica keeps and needs.
void share(LayerWork& work, int gpus) {
  for (Bytes* bytes :
       {&work.saved_activations, &work.weight_copies, &work.recomputed_activations,
        &work.forward_workspace, &work.backward_workspace, &work.workspace_tensor, &work.output}) {
    *bytes = ceil_div(*bytes, gpus);
  }
}

}  // namespace

void loss_work(const Sizes& z, std::int64_t rows, std::int64_t classes, LayerWork& work) {
  const std::int64_t logits = rows * classes;
  if (z.workload->loss_apart) {  // loss_of() is the rest
    work.output += z.element * logits;
    return;
  }
  if (z.workload->fused_loss) {
    // Log-sum-exp in fp32, one a token.
    work.forward.push_back(
        memory_bound(names().fused, z.dtype, z.element * logits + id_bytes * rows, 4 * rows));
    work.backward.push_back(marks_nothing(memory_bound(
        names().fused_backward, z.dtype, z.element * logits + 12 * rows, z.element * logits)));
    work.saved_activations += z.element * logits + 4 * rows;
    work.backward_workspace = std::max(work.backward_workspace, z.element * logits);
    return;
  }
  const bool cast = z.element < 4;
  const Bytes copy = 4 * logits;
  if (cast) {
    work.forward.push_back(memory_bound(names().to_fp32, z.dtype, z.element * logits, copy));
  }
  work.forward.push_back(memory_bound(names().softmax, Dtype::fp32, copy, copy));
  work.forward.push_back(memory_bound(names().loss, Dtype::fp32, (4 + id_bytes) * rows, 4));
  work.backward.push_back(
      marks_nothing(memory_bound(names().loss_backward, Dtype::fp32, id_bytes * rows, copy, 2)));
  work.backward.push_back(
      marks_nothing(memory_bound(names().softmax_backward, Dtype::fp32, 2 * copy, copy)));
  if (cast) {
    work.backward.push_back(
        marks_nothing(memory_bound(names().from_fp32, z.dtype, copy, z.element * logits)));
  }
  work.saved_activations += copy;
  work.forward_workspace =
      std::max(work.forward_workspace, cast ? z.element * logits + copy : copy);
  work.backward_workspace = std::max(work.backward_workspace, 2 * copy);
  work.workspace_tensor = std::max(work.workspace_tensor, copy);
}

void class_head_work(const Sizes& z, const LinearNames& linear_names, std::int64_t width,
                     int first_tensor, LayerWork& work) {
  const std::int64_t classes = z.architecture->classes;
  Sizes rows = z;
  rows.tokens = z.batch;
  const Linear linear{linear_names, width, classes, first_tensor, first_tensor + 1};
  linear_forward(rows, linear, work.forward);
  loss_work(rows, z.batch, classes, work);
  linear_backward(rows, linear, work.backward);
  work.weight_copies = z.casts ? z.element * (width + 1) * classes : 0;
  work.saved_activations += work.weight_copies;
}

LayerWork work_of(const Model& model, int layer, const Workload& workload) {
  STEPCAST_ASSERT(layer >= 0 && static_cast<std::size_t>(layer) < model.layers.size(),
                  "a layer of the model");
  const Layer& which = model.layers[static_cast<std::size_t>(layer)];
  if (model.architecture.layers == 0) return tensor_work(which);
  Sizes sizes = sizes_of(model, workload);
  if (which.kind == LayerKind::block) sizes.fp8 = workload.fp8;  // not the head's
  LayerWork work;
  switch (model.architecture.family) {
    case Family::gpt2:
    case Family::llama:
    case Family::mpt:
    case Family::mixtral: decoder_layer(sizes, which, work); break;
    case Family::bert:
    case Family::vit: encoder_layer(sizes, which, work); break;
    case Family::mlp: mlp_layer(sizes, which, work); break;
    case Family::resnet: resnet_layer(sizes, which, layer, work); break;
    case Family::composed: composed_work(sizes, which, layer, model, work); break;
  }
  if (workload.replica_gpus > 1) share(work, workload.replica_gpus);
  return work;
}

Bytes input_bytes(const Model& model, const Workload& workload) {
  const Architecture& a = model.architecture;
  if (takes_images(a.family)) {
    const std::int64_t side = workload.image_size > 0 ? workload.image_size : a.image_size;
    return workload.micro_batch * (3 * side * side * 4 + id_bytes);
  }
  const std::int64_t seq = workload.seq_len > 0 ? workload.seq_len : a.max_positions;
  const std::int64_t tokens = workload.micro_batch * std::max<std::int64_t>(seq, 1);
  // Ids and labels; an encoder's segment ids, mask and one more label a sequence.
  if (a.family != Family::bert) return 2 * id_bytes * tokens;
  return id_bytes * (4 * tokens + (a.next_sentence ? workload.micro_batch : 0));
}

Bytes label_bytes(const Model& model, const Workload& workload) {
  const Architecture& a = model.architecture;
  if (takes_images(a.family)) return id_bytes * workload.micro_batch;
  const std::int64_t seq = workload.seq_len > 0 ? workload.seq_len : a.max_positions;
  return id_bytes * workload.micro_batch *
         (std::max<std::int64_t>(seq, 1) + (a.next_sentence ? 1 : 0));
}

LossWork loss_of(const Model& model, const Workload& workload) {
  LossWork loss;
  const Architecture& a = model.architecture;
  if (a.layers == 0) return loss;
  Workload joined = workload;
  joined.loss_apart = false;
  const Sizes sizes = sizes_of(model, joined);
  LayerWork work;
  const auto over = [&](std::int64_t rows, std::int64_t classes) {
    loss_work(sizes, rows, classes, work);
    loss.logits += sizes.element * rows * classes;
  };
  if (takes_images(a.family)) {
    over(sizes.batch, a.classes);
  } else {
    over(a.family == Family::bert ? masked_rows(sizes).tokens : sizes.tokens, sizes.vocabulary);
    if (a.next_sentence) over(sizes.batch, 2);
  }
  loss.forward = std::move(work.forward);
  for (BackwardKernel& backward : work.backward) loss.backward.push_back(backward.kernel);
  // loss_work counts the logits among what it saves, or else in its workspace, and their gradient
  // in the workspace of its backward.
  loss.keeps_logits = workload.fused_loss;
  const Bytes kept = loss.keeps_logits ? loss.logits : 0;
  loss.saved = work.saved_activations - kept;
  loss.forward_workspace = std::max<Bytes>(0, work.forward_workspace - (loss.logits - kept));
  loss.backward_workspace = std::max<Bytes>(0, work.backward_workspace - loss.logits);
  return loss;
}

}  // namespace stepcast
