// First and last layers of a model that is put together from parts; its blocks are
// composed_block.cpp's.
//
//   embedding  token rows (of an encoder-decoder with one table twice), positions, types, norm;
//              a stem (Whisper's two convolutions) as products of its rows
//   norm       one norm; the encoder's keeps its result for the cross attentions
//   head       projections and norm before it if any, product with the vocabulary, loss
//
// Tested by tests/unit/models/composition_test.cpp.

#include <algorithm>

#include "base/error.hpp"
#include "models/composed_block.hpp"

namespace stepcast {

namespace {

constexpr Bytes id_bytes = 8;

// Which segment a layer is of.
const Section& segment_of(const Model& model, int number, std::size_t& index) {
  const Composition& c = *model.architecture.composition;
  int layer = 0;
  std::int64_t own = 0;
  for (const Section& s : c.segments) own += static_cast<std::int64_t>(s.order.size());
  for (index = 0; index < c.segments.size(); ++index) {
    const Section& s = c.segments[index];
    const auto size = static_cast<std::int64_t>(s.order.size());
    layer += s.kind != LayerKind::block ? 1
             : size == own              ? static_cast<int>(model.architecture.layers)
                                        : static_cast<int>(size);
    if (number < layer) return s;
  }
  STEPCAST_ASSERT(false, "a layer of a segment");
}

class Ends {
 public:
  Ends(const Sizes& z, const Section& segment)
      : z_(z),
        a_(*z.architecture),
        segment_(segment),
        tensors_(tensors_of(segment.modules, {}, a_)),
        tape_(z),
        width_(z.tokens * z.hidden) {}

  void embedding(bool twice, LayerWork& work) {
    static const Name gather{"embedding"}, gather_back{"embedding.backward"};
    static const Name add{"embedding_add"}, tied{"tied_grad_add"};
    static const Name positions{"position_embedding"};
    static const Name positions_back{"position_embedding.backward"};
    static const Name types{"token_type_embedding"}, types_back{"token_type_embedding.backward"};
    static const Name dropout{"embedding_dropout"}, dropout_back{"embedding_dropout.backward"};
    bool summed = false;
    for (std::size_t i = 0; i < segment_.modules.size(); ++i) {
      const Module& m = segment_.modules[i];
      if (m.part == Part::tokens) {
        const std::vector<std::int64_t> shape = shape_of(m, {}, a_);
        const std::int64_t rows = z_.tokens * shape[1];
        const std::int64_t table = shape[0] * shape[1];
        for (int times = twice ? 2 : 1; times > 0; --times) {
          std::vector<BackwardKernel> backward{marks_nothing(memory_bound(
              gather_back, z_.dtype, (z_.stream + z_.parameter) * rows + 2 * id_bytes * z_.tokens,
              z_.parameter * (table + rows), 2))};
          const bool last = times == (twice ? 2 : 1);  // in reverse
          if (last && a_.tied_embeddings) {
            backward.push_back(marks_nothing(
                memory_bound(tied, z_.dtype, 2 * z_.parameter * table, z_.parameter * table)));
          }
          if (last) backward.back().ready.push_back(tensor(i, false));
          tape_.pair({memory_bound(gather, z_.dtype, z_.parameter * rows + id_bytes * z_.tokens,
                                   z_.stream * rows)},
                     std::move(backward));
        }
      } else if (m.part == Part::positions) {
        const std::int64_t rows = z_.seq * z_.hidden;
        BackwardKernel backward;
        backward.kernel = memory_bound(
            positions_back, z_.dtype, z_.stream * (width_ + rows) + id_bytes * z_.seq,
            z_.stream * rows + z_.parameter * (a_.max_positions * z_.hidden + rows), 3);
        backward.ready.push_back(tensor(i, false));
        tape_.pair({memory_bound(positions, z_.dtype, z_.parameter * rows, z_.stream * rows),
                    memory_bound(add, z_.dtype, z_.stream * (width_ + rows), z_.stream * width_)},
                   {backward});
        summed = true;
      } else if (m.part == Part::types) {
        BackwardKernel backward;
        backward.kernel =
            memory_bound(types_back, z_.dtype, z_.stream * width_ + id_bytes * z_.tokens,
                         z_.parameter * a_.token_types * z_.hidden, 2);
        backward.ready.push_back(tensor(i, false));
        tape_.pair({memory_bound(types, z_.dtype, z_.parameter * width_ + id_bytes * z_.tokens,
                                 z_.stream * width_),
                    memory_bound(add, z_.dtype, 2 * z_.stream * width_, z_.stream * width_)},
                   {backward});
        summed = true;
      } else if (m.part == Part::norm1) {
        tape_.norm("embedding_norm", z_.tokens, z_.hidden, z_.stream, tensor(i, false),
                   tensor(i, true));
        tape_.keep(z_.stream * width_);
        summed = true;
      } else if (m.part == Part::linear || m.part == Part::project_in ||
                 m.part == Part::project_out) {
        const std::vector<std::int64_t> shape = shape_of(m, {}, a_);
        tape_.linear(m.part == Part::linear ? "stem" : "embedding_proj", shape[1], shape[0],
                     tensor(i, false), tensor(i, true));
        tape_.keep(z_.element * z_.tokens * (shape[0] + shape[1]));
      }
    }
    if (a_.embedding_dropout) {
      tape_.pair(dropout_forward(z_, dropout, width_, z_.stream),
                 dropout_backward(z_, dropout_back, width_, z_.stream));
      tape_.keep(width_);
      summed = true;
    }
    finish(work);
    work.output = z_.stream * width_;
    work.forward_workspace = summed ? z_.stream * width_ : 0;
  }

  void norm(bool kept_for_decoder, LayerWork& work) {
    tape_.norm("final_norm", z_.tokens, z_.hidden, z_.stream, first(Part::norm1, false),
               first(Part::norm1, true));
    tape_.keep(z_.stream * width_ + (kept_for_decoder ? z_.element * width_ : 0));
    finish(work);
    work.output = z_.element * width_;
    work.forward_workspace = norm_workspace(z_, width_) + (z_.stream - z_.element) * width_;
    work.backward_workspace = work.forward_workspace;
  }

  void head(LayerWork& work) {
    static const Name gelu{"activation"}, gelu_back{"activation.backward"};
    const std::int64_t in =
        a_.composition->token_width > 0 ? a_.composition->token_width : z_.hidden;
    for (std::size_t i = 0; i < segment_.modules.size(); ++i) {
      const Module& m = segment_.modules[i];
      if (m.part == Part::linear) {
        tape_.linear("head_transform", m.shape[1], m.shape[0], tensor(i, false), tensor(i, true));
        tape_.pair(elementwise(z_, gelu, z_.tokens * m.shape[0], z_.tokens * m.shape[0]),
                   elementwise(z_, gelu_back, 2 * z_.tokens * m.shape[0], z_.tokens * m.shape[0]));
        tape_.keep(2 * z_.element * z_.tokens * m.shape[0]);
      } else if (m.part == Part::norm) {
        tape_.norm("head_norm", z_.tokens, m.shape[0], z_.element, tensor(i, false),
                   tensor(i, true));
        tape_.keep(z_.element * z_.tokens * m.shape[0]);
      }
    }
    int bias = first(Part::head, true);
    if (bias < 0) bias = first(Part::tensor, false);  // of a tied head
    tape_.linear("lm_head", in, a_.vocabulary, first(Part::head, false), bias);
    tape_.keep(z_.element * z_.tokens * in);
    LayerWork product;
    tape_.write(product.forward, product.backward);
    work.forward = std::move(product.forward);
    loss_work(z_, z_.tokens, a_.vocabulary, work);
    for (BackwardKernel& b : product.backward) work.backward.push_back(std::move(b));
    work.weight_copies = tape_.copies();
    work.saved_activations += tape_.kept() + tape_.copies();
  }

 private:
  int tensor(std::size_t module, bool bias) const {
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      if (static_cast<std::size_t>(tensors_[i].module) == module && tensors_[i].bias == bias) {
        return static_cast<int>(i);
      }
    }
    return -1;
  }
  int first(Part part, bool bias) const {
    for (std::size_t i = 0; i < segment_.modules.size(); ++i) {
      if (segment_.modules[i].part == part) return tensor(i, bias);
    }
    return -1;
  }

  void finish(LayerWork& work) {
    tape_.write(work.forward, work.backward);
    std::vector<bool> marked(tensors_.size(), false);
    for (const BackwardKernel& b : work.backward) {
      for (const int i : b.ready) {
        if (i >= 0) marked[static_cast<std::size_t>(i)] = true;
      }
    }
    for (BackwardKernel& b : work.backward) {
      b.ready.erase(std::remove(b.ready.begin(), b.ready.end(), -1), b.ready.end());
    }
    for (std::size_t i = 0; i < marked.size(); ++i) {
      if (!marked[i] && !work.backward.empty()) {
        work.backward.back().ready.push_back(static_cast<int>(i));
      }
    }
    work.weight_copies = tape_.copies();
    work.saved_activations = tape_.kept() + tape_.copies();
  }

  const Sizes& z_;
  const Architecture& a_;
  const Section& segment_;
  std::vector<ModuleTensor> tensors_;
  Tape tape_;
  std::int64_t width_;
};

}  // namespace

void composed_work(const Sizes& sizes, const Layer& layer, int number, const Model& model,
                   LayerWork& work) {
  const Composition& c = *model.architecture.composition;
  std::size_t index = 0;
  const Section& segment = segment_of(model, number, index);
  Sizes z = sizes;
  if (segment.positions > 0) {
    z.seq = segment.positions;
    z.tokens = z.batch * z.seq;
  }
  const int stacks = stacks_of(c);
  const auto tables = std::count_if(c.segments.begin(), c.segments.end(), [](const Section& s) {
    return s.kind == LayerKind::embedding || s.kind == LayerKind::stem;
  });
  switch (layer.kind) {
    case LayerKind::embedding:
    case LayerKind::stem: return Ends(z, segment).embedding(stacks > tables, work);
    case LayerKind::block:
      return composed_block_work(z, c.kinds[static_cast<std::size_t>(layer.block_kind)], work);
    case LayerKind::final_norm:
      return Ends(z, segment).norm(stacks > 1 && index + 3 < c.segments.size(), work);
    case LayerKind::head: return Ends(z, segment).head(work);
  }
}

}  // namespace stepcast
