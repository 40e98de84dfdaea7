// First and last layers of encoders; their blocks are block_work.cpp's.
//
//   bert  embedding  token, position and segment rows added up, LayerNorm, dropout
//         head       masked tokens: projection, GELU, LayerNorm, product with the token table and a
//                    bias, loss over every position (labels of -100 are computed and left out, as
//                    transformers does), or over `masked_share` of them, gathered first, as
//                    NVIDIA's scripts do next sentence: pooler on the first token, tanh, 2 classes,
//                    loss
//   vit   embedding  patches as a convolution whose stride is its side, class token, positions
//         head       class token's row, classifier, loss
//
// Gradients become ready as autograd runs: of two nodes that are ready the one made later in
// forward, and a leaf's accumulation before anything else. So bert's pooler, which runs inside the
// encoder, comes last in the head, and vit's positions come before its class token and patches.
// Tested by tests/unit/models/encoders_test.cpp.

#include <algorithm>
#include <cmath>

#include "models/layout.hpp"
#include "models/work_parts.hpp"

namespace stepcast {
namespace {

struct Names {
  Name tokens{"embedding"}, positions{"position_embedding"}, types{"token_type_embedding"};
  Name add{"embedding_add"};
  Name tokens_backward{"embedding.backward"}, positions_backward{"position_embedding.backward"};
  Name types_backward{"token_type_embedding.backward"}, tied{"tied_grad_add"};
  Name dropout{"embedding_dropout"}, dropout_backward{"embedding_dropout.backward"};
  NormNames embedding_norm{"embedding_norm"};

  LinearNames pooler{"pooler"}, transform{"mlm_transform"}, decoder{"mlm_decoder"};
  LinearNames next_sentence{"next_sentence"};
  NormNames transform_norm{"mlm_norm"};
  Name tanh{"tanh"}, tanh_backward{"tanh.backward"};
  Name gelu{"activation"}, gelu_backward{"activation.backward"};
  Name to_fp32{"norm_input_cast"}, from_fp32{"norm_input_grad_cast"};
  Name first_token{"first_token.backward"};
  Name gather{"masked_gather"}, scatter{"masked_gather.backward"};

  LinearNames patches{"patches"}, classifier{"classifier"};
  Name image_cast{"image_cast"}, join{"class_token"};
  Name join_backward{"class_token.backward"}, split{"patch_grad"};
};

const Names& names() {
  static const Names instance;
  return instance;
}

constexpr Bytes id_bytes = 8;

// Sum over the batch, then the table's gradient: zeros with rows added.
BackwardKernel position_gradient(const Sizes& z, int tensor) {
  const std::int64_t width = z.tokens * z.hidden;
  const std::int64_t rows = z.seq * z.hidden;
  const std::int64_t table = z.architecture->max_positions * z.hidden;
  BackwardKernel positions;
  positions.kernel = memory_bound(names().positions_backward, z.dtype,
                                  z.stream * (width + rows) + id_bytes * z.seq,
                                  z.stream * rows + z.parameter * (table + rows), 3);
  positions.ready = {tensor};
  return positions;
}

Sizes one_row_a_sample(const Sizes& z) {
  Sizes rows = z;
  rows.tokens = z.batch;
  return rows;
}

Bytes copies_of(const Sizes& z, const Linear& linear) {
  return z.casts ? z.element * (linear.in * linear.out + linear.out) : 0;
}

}  // namespace

void bert_embedding_work(const Sizes& z, LayerWork& work) {
  const Architecture& a = *z.architecture;
  const std::int64_t width = z.tokens * z.hidden;
  const std::int64_t rows = z.seq * z.hidden;
  const std::int64_t table = z.vocabulary * z.hidden;
  const Bytes gathered = z.parameter * width + id_bytes * z.tokens;
  const Norm norm{names().embedding_norm, z.tokens, z.hidden, z.stream, 3, 4};

  work.forward.push_back(memory_bound(names().tokens, z.dtype, gathered, z.stream * width));
  work.forward.push_back(memory_bound(names().types, z.dtype, gathered, z.stream * width));
  work.forward.push_back(
      memory_bound(names().positions, z.dtype, z.parameter * rows, z.stream * rows));
  work.forward.push_back(
      memory_bound(names().add, z.dtype, z.stream * (3 * width + rows), z.stream * 2 * width, 2));
  norm_forward(z, norm, work.forward);
  if (a.embedding_dropout) {
    work.forward.push_back(dropout_forward(z, names().dropout, width, z.stream));
    work.backward.push_back(
        marks_nothing(dropout_backward(z, names().dropout_backward, width, z.stream)));
  }
  norm_backward(z, norm, work.backward);
  work.backward.push_back(position_gradient(z, 1));
  BackwardKernel& types = work.backward.emplace_back();
  types.kernel =
      memory_bound(names().types_backward, z.dtype, z.stream * width + id_bytes * z.tokens,
                   z.parameter * a.token_types * z.hidden, 2);
  types.ready = {2};
  work.backward.push_back(marks_nothing(memory_bound(
      names().tokens_backward, z.dtype, (z.stream + z.parameter) * width + 2 * id_bytes * z.tokens,
      z.parameter * (table + width), 2)));
  work.backward.push_back(marks_nothing(
      memory_bound(names().tied, z.dtype, 2 * z.parameter * table, z.parameter * table)));
  work.backward.back().ready.push_back(0);

  work.saved_activations = z.stream * width + (a.embedding_dropout ? width : 0);
  work.output = z.stream * width;
  work.forward_workspace = 2 * z.stream * width;
  work.backward_workspace = z.stream * width;
}

Sizes masked_rows(const Sizes& z) {
  Sizes rows = z;
  const double masked = z.architecture->masked_share * static_cast<double>(z.tokens);
  rows.tokens = std::max<std::int64_t>(1, std::llround(masked));
  return rows;
}

void bert_head_work(const Sizes& all, LayerWork& work) {
  const Sizes z = masked_rows(all);
  const bool gathers = z.tokens < all.tokens;
  const bool pooled = z.architecture->next_sentence;
  const Sizes firsts = one_row_a_sample(z);
  const std::int64_t every = all.tokens * z.hidden;
  const std::int64_t width = z.tokens * z.hidden;
  const std::int64_t pooled_width = z.batch * z.hidden;
  // pooler 0 1; predictions: bias, transform 2, its norm 2; next sentence 2.
  const int base = pooled ? 2 : 0;
  const Linear pooler{names().pooler, z.hidden, z.hidden, 0, 1};
  const Linear transform{names().transform, z.hidden, z.hidden, base + 1, base + 2};
  const Norm norm{names().transform_norm, z.tokens, z.hidden, z.stream, base + 3, base + 4};
  const Linear decoder{names().decoder, z.hidden, z.vocabulary, -1, base};  // the token table
  const Linear next{names().next_sentence, z.hidden, 2, base + 5, base + 6};

  if (pooled) {
    linear_forward(firsts, pooler, work.forward);
    work.forward.push_back(elementwise(z, names().tanh, pooled_width, pooled_width));
  }
  if (gathers) work.forward.push_back(elementwise(z, names().gather, width, width));
  linear_forward(z, transform, work.forward);
  work.forward.push_back(elementwise(z, names().gelu, width, width));
  if (z.casts) {
    work.forward.push_back(
        memory_bound(names().to_fp32, z.dtype, z.element * width, z.stream * width));
  }
  norm_forward(z, norm, work.forward);
  linear_forward(z, decoder, work.forward);
  if (pooled) linear_forward(firsts, next, work.forward);
  loss_work(z, z.tokens, z.vocabulary, work);
  if (pooled) loss_work(z, z.batch, 2, work);

  if (pooled) linear_backward(firsts, next, work.backward);
  linear_backward(z, decoder, work.backward);
  norm_backward(z, norm, work.backward);
  if (z.casts) {
    work.backward.push_back(marks_nothing(
        memory_bound(names().from_fp32, z.dtype, z.stream * width, z.element * width)));
  }
  work.backward.push_back(marks_nothing(elementwise(z, names().gelu_backward, 2 * width, width)));
  linear_backward(z, transform, work.backward);
  if (gathers) {  // zeros, then the rows
    work.backward.push_back(
        marks_nothing(elementwise(z, names().scatter, width, every + width, 2)));
  }
  if (pooled) {
    work.backward.push_back(
        marks_nothing(elementwise(z, names().tanh_backward, 2 * pooled_width, pooled_width)));
    linear_backward(firsts, pooler, work.backward);
    // Zeros but for the first tokens, added to the other head's gradient.
    work.backward.push_back(
        marks_nothing(elementwise(z, names().first_token, pooled_width + 2 * every, 2 * every, 2)));
  }

  work.weight_copies = copies_of(z, transform) + copies_of(z, decoder);
  if (pooled) work.weight_copies += copies_of(z, pooler) + copies_of(z, next);
  // The input and its 16-bit copy; inputs of GELU, norm and decoder; the pooler's input and result.
  work.saved_activations += z.stream * every + (gathers ? z.stream * width : 0) +
                            (z.casts ? z.element * width : 0) + z.element * width +
                            z.stream * width + z.element * width +
                            (pooled ? 2 * z.element * pooled_width : 0) + work.weight_copies;
}

void vit_embedding_work(const Sizes& z, LayerWork& work) {
  const Architecture& a = *z.architecture;
  const std::int64_t side = z.image / a.patch_size;
  const Convolution patches{z.batch, 3, z.hidden, a.patch_size, a.patch_size, z.image, side};
  const std::int64_t width = z.tokens * z.hidden;
  const std::int64_t rows = z.seq * z.hidden;
  const std::int64_t inner = patches.out_elements();
  const std::int64_t weights = patches.weights() + z.hidden;

  if (z.element < 4) {
    work.forward.push_back(memory_bound(names().image_cast, z.dtype, 4 * patches.in_elements(),
                                        z.element * patches.in_elements()));
  }
  if (z.casts) {
    work.forward.push_back(
        memory_bound(names().patches.cast, z.dtype, z.parameter * weights, z.element * weights, 2));
  }
  work.forward.push_back(
      convolution(names().patches.forward, z.dtype, patches, ConvolutionPass::forward));
  work.forward.push_back(memory_bound(names().join, z.dtype, z.element * inner, z.stream * width));
  work.forward.push_back(
      memory_bound(names().add, z.dtype, z.stream * width + z.parameter * rows, z.stream * width));
  if (a.embedding_dropout) {
    work.forward.push_back(dropout_forward(z, names().dropout, width, z.stream));
    work.backward.push_back(
        marks_nothing(dropout_backward(z, names().dropout_backward, width, z.stream)));
  }

  BackwardKernel& positions = work.backward.emplace_back();
  positions.kernel =
      memory_bound(names().positions_backward, z.dtype, z.stream * width, z.parameter * rows);
  positions.ready = {1};
  BackwardKernel& token = work.backward.emplace_back();
  token.kernel = memory_bound(names().join_backward, z.dtype, z.stream * z.batch * z.hidden,
                              z.parameter * z.hidden);
  token.ready = {0};
  work.backward.push_back(
      marks_nothing(memory_bound(names().split, z.dtype, z.stream * inner, z.element * inner)));
  work.backward.push_back(marks_nothing(
      convolution(names().patches.wgrad, z.dtype, patches, ConvolutionPass::weight_gradient)));
  if (z.casts) {
    work.backward.push_back(marks_nothing(memory_bound(
        names().patches.grad_cast, z.dtype, z.element * weights, z.parameter * weights)));
  }
  // One autograd node makes both gradients, the weight's is accumulated first.
  BackwardKernel& bias = work.backward.emplace_back();
  bias.kernel =
      memory_bound(names().patches.bias_grad, z.dtype, z.element * inner, z.parameter * z.hidden);
  bias.ready = {2, 3};

  work.weight_copies = z.casts ? z.element * weights : 0;
  work.saved_activations = (z.element < 4 ? z.element * patches.in_elements() : 0) +
                           (a.embedding_dropout ? width : 0) + work.weight_copies;
  work.output = z.stream * width;
  work.forward_workspace = z.element * inner + z.stream * width;
  work.backward_workspace = z.element * inner;
}

void vit_head_work(const Sizes& z, LayerWork& work) {
  const std::int64_t width = z.tokens * z.hidden;
  class_head_work(z, names().classifier, z.hidden, 0, work);
  work.backward.push_back(
      marks_nothing(elementwise(z, names().first_token, z.batch * z.hidden, width)));
  work.saved_activations += z.element * width;  // the class token is a view of all
}

}  // namespace stepcast
