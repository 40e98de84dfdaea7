#include "sim/strategies/dp/reduce.hpp"

#include <string>

#include "sim/strategies/common/view_list.hpp"

namespace stepcast::dp {
namespace {

const Name verb_flatten("flatten");
const Name verb_reduce("reduce");
const Name verb_accumulate("accumulate");
const Name rule_reduce("dp.reduce-after-backward");
const Name cost_chunk("dp_reduce_chunk");
const Name cost_accumulate("dp_accumulate_grad");

std::vector<Bytes> gradient_bytes(const TrainingStep& step) {
  std::vector<Bytes> sizes;
  for (const Parameter& parameter : step.model.parameters) {
    sizes.push_back(parameter.elements() * bytes_per_element(step.precision.gradient));
  }
  return sizes;
}

}  // namespace

GradientReduction::GradientReduction(ScheduleBuilder& builder, const TrainingStep& step,
                                     LayerGradients& gradients, StreamIndex compute,
                                     CommIndex world)
    : builder_(builder),
      step_(step),
      layer_gradients_(gradients),
      parts_(gradient_bytes(step)),
      compute_(compute),
      world_(world) {
  for (std::size_t i = 0; i < step.model.layers.size(); ++i) {
    const Layer& layer = step.model.layers[i];
    layers_.push_back(static_cast<int>(i));
    parts_.add(layer.first_parameter, layer.parameter_count, gradients.buffer(static_cast<int>(i)));
  }
  const Dtype dtype = step.precision.gradient;
  for (const Chunk& chunk : reduce_chunks(gradient_bytes(step))) {
    Piece& piece = pieces_.emplace_back();
    piece.chunk = chunk;
    const std::string suffix = ".chunk" + std::to_string(pieces_.size() - 1);
    const auto make = [&](const char* name, BufferKind kind) {
      return builder.buffer(name + suffix, kind, dtype, chunk.bytes, compute);
    };
    if (chunk.count > 1) piece.flat = make("flat_gradients", BufferKind::reduce_input);
    piece.reduced = make("reduced", BufferKind::gradient);
    if (step.accumulation > 1) piece.fresh = make("fresh_reduced", BufferKind::gradient);
  }
}

OpIndex GradientReduction::reduce(bool root, int micro_batch) {
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    reduce(pieces_[i], static_cast<int>(i), root, micro_batch);
  }
  builder_.at(Phase::backward, -1, micro_batch);
  layer_gradients_.free(layers_);
  if (root && micro_batch > 0) {
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      accumulate(pieces_[i], static_cast<int>(i), micro_batch);
    }
  }
  builder_.at(Phase::backward, -1, micro_batch);
  return builder_.host_work(cost_accumulate, static_cast<int>(step_.model.parameters.size()));
}

void GradientReduction::reduce(const Piece& piece, int number, bool root, int micro_batch) {
  builder_.at(Phase::backward, builder_.unit("chunk" + std::to_string(number)), micro_batch);
  builder_.rule(rule_reduce);
  builder_.host_work(cost_chunk, step_.mesh.world_size());
  const Dtype dtype = step_.precision.gradient;
  std::vector<View> sent = parts_.views(piece.chunk.first, piece.chunk.count);
  if (piece.flat >= 0) {
    builder_.alloc(piece.flat);
    const View flat = builder_.whole(piece.flat);
    builder_.one_kernel(verb_flatten, compute_,
                        memory_bound(verb_flatten, dtype, piece.chunk.bytes, piece.chunk.bytes),
                        sent, ViewList(flat));
    sent = {flat};
  }
  const BufferIndex result = micro_batch > 0 ? piece.fresh : piece.reduced;
  if (root) builder_.alloc(result);
  builder_.collective(verb_reduce, CollectiveKind::reduce, world_, compute_, dtype,
                      piece.chunk.bytes / bytes_per_element(dtype), Reduction::sum, sent,
                      ViewList(root ? builder_.whole(result) : View{}), 0);
  if (piece.flat >= 0) builder_.free(piece.flat);
}

void GradientReduction::accumulate(const Piece& piece, int number, int micro_batch) {
  builder_.at(Phase::backward, builder_.unit("chunk" + std::to_string(number)), micro_batch);
  const View sum = builder_.whole(piece.reduced);
  const Bytes bytes = piece.chunk.bytes;
  builder_.one_kernel(
      verb_accumulate, compute_,
      memory_bound(verb_accumulate, step_.precision.gradient, 2 * bytes, bytes, piece.chunk.count),
      ViewList(sum).add(builder_.whole(piece.fresh)), ViewList(sum));
  builder_.free(piece.fresh);
}

std::vector<View> GradientReduction::gradients() const {
  std::vector<View> views;
  for (const Piece& piece : pieces_) views.push_back(builder_.whole(piece.reduced));
  return views;
}

void GradientReduction::drop_gradients() {
  builder_.at(Phase::optimizer);
  for (const Piece& piece : pieces_) builder_.free(piece.reduced);
}

}  // namespace stepcast::dp
