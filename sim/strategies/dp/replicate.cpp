#include "sim/strategies/dp/replicate.hpp"

#include <algorithm>
#include <numeric>
#include <set>
#include <string>

#include "sim/strategies/common/layouts.hpp"
#include "sim/strategies/common/view_list.hpp"

namespace stepcast::dp {
namespace {

const Name verb_flatten("flatten");
const Name verb_broadcast("broadcast");
const Name rule_replicate("dp.replicate-every-forward");
const Name cost_module("dp_replicate_module");

std::vector<Bytes> parameter_bytes(const TrainingStep& step) {
  std::vector<Bytes> sizes;
  for (const Parameter& parameter : step.model.parameters) {
    sizes.push_back(parameter.elements() * bytes_per_element(step.precision.parameter));
  }
  return sizes;
}

}  // namespace

int module_count(const Model& model) {
  std::set<std::string> modules{""};
  for (const Parameter& parameter : model.parameters) {
    const std::string& name = parameter.name.str();
    for (std::size_t dot = name.find('.'); dot != std::string::npos;
         dot = name.find('.', dot + 1)) {
      modules.insert(name.substr(0, dot));
    }
  }
  return static_cast<int>(modules.size());
}

Replicas::Replicas(ScheduleBuilder& builder, const TrainingStep& step, TensorParts parameters,
                   StreamIndex compute, CommIndex world)
    : builder_(builder),
      step_(step),
      compute_(compute),
      world_(world),
      parameters_(std::move(parameters)),
      replicas_(parameter_bytes(step)) {
  plan_parameters();
  plan_module_buffers();
}

void Replicas::add_piece(const Chunk& chunk, Dtype dtype, std::vector<View> source,
                         int first_layer) {
  Piece& piece = pieces_.emplace_back();
  piece.number = static_cast<int>(pieces_.size()) - 1;
  piece.tensors = chunk.count;
  piece.dtype = dtype;
  piece.bytes = chunk.bytes;
  piece.source = std::move(source);
  piece.first_layer = first_layer;
  const std::string suffix = "chunk" + std::to_string(piece.number);
  if (chunk.count > 1) {
    piece.flat =
        builder_.buffer("flat." + suffix, BufferKind::workspace, dtype, chunk.bytes, compute_);
  }
  piece.replica =
      builder_.buffer("replica." + suffix, BufferKind::parameter, dtype, chunk.bytes, compute_);
}

void Replicas::plan_parameters() {
  for (const Chunk& chunk : broadcast_chunks(parameter_bytes(step_))) {
    int first_layer = static_cast<int>(step_.model.layers.size());
    for (std::size_t i = 0; i < step_.model.layers.size(); ++i) {
      const Layer& layer = step_.model.layers[i];
      const bool apart = layer.first_parameter >= chunk.first + chunk.count ||
                         layer.first_parameter + layer.parameter_count <= chunk.first;
      if (!apart) first_layer = std::min(first_layer, static_cast<int>(i));
    }
    add_piece(chunk, step_.precision.parameter, parameters_.views(chunk.first, chunk.count),
              first_layer);
    std::vector<int> tensors(static_cast<std::size_t>(chunk.count));
    std::iota(tensors.begin(), tensors.end(), chunk.first);
    whole_layout(builder_, pieces_.back().replica, one_after_another(step_.model, tensors));
    replicas_.add(chunk.first, chunk.count, pieces_.back().replica);
  }
}

// Grouped by dtype, like parameters of several dtypes would be.
void Replicas::plan_module_buffers() {
  for (const Dtype dtype : {Dtype::fp32, Dtype::int64}) {
    std::vector<Bytes> sizes;
    Bytes total = 0;
    for (const ModuleBuffer& buffer : step_.model.buffers) {
      if (buffer.dtype != dtype) continue;
      sizes.push_back(buffer.elements() * bytes_per_element(dtype));
      total += sizes.back();
    }
    if (sizes.empty()) continue;
    const BufferIndex home = builder_.persistent("module_buffers." + std::string(to_string(dtype)),
                                                 BufferKind::other, dtype, total);
    TensorParts parts(sizes);
    parts.add(0, static_cast<int>(sizes.size()), home);
    for (const Chunk& chunk : broadcast_chunks(sizes)) {
      add_piece(chunk, dtype, parts.views(chunk.first, chunk.count), 0);
    }
  }
}

OpIndex Replicas::replicate(bool root, int micro_batch) {
  for (const Piece& piece : pieces_) broadcast(piece, root, micro_batch);
  builder_.at(Phase::forward, -1, micro_batch);
  builder_.rule(rule_replicate);
  return builder_.host_work(cost_module, module_count(step_.model) * step_.mesh.world_size());
}

void Replicas::broadcast(const Piece& piece, bool root, int micro_batch) {
  builder_.at(Phase::forward, builder_.unit("chunk" + std::to_string(piece.number)), micro_batch);
  builder_.rule(rule_replicate);
  const auto send = [&](std::span<const View> reads, std::span<const View> writes) {
    builder_.collective(verb_broadcast, CollectiveKind::broadcast, world_, compute_, piece.dtype,
                        piece.bytes / bytes_per_element(piece.dtype), Reduction::none, reads,
                        writes, 0);
  };
  if (!root) {
    builder_.alloc(piece.replica);
    send({}, ViewList(builder_.whole(piece.replica)));
    return;
  }
  if (piece.flat < 0) return send(piece.source, {});
  const View flat = builder_.whole(piece.flat);
  builder_.alloc(piece.flat);
  builder_.one_kernel(verb_flatten, compute_,
                      memory_bound(verb_flatten, piece.dtype, piece.bytes, piece.bytes),
                      piece.source, ViewList(flat));
  send(ViewList(flat), {});
  builder_.free(piece.flat);
}

std::vector<View> Replicas::weights_of(bool root, int layer) const {
  const TensorParts& at = root ? parameters_ : replicas_;
  const Layer& which = step_.model.layers[static_cast<std::size_t>(layer)];
  std::vector<View> views = at.views(which.first_parameter, which.parameter_count);
  if (which.tied_parameter >= 0) {
    const std::vector<View> tied = at.views(which.tied_parameter, 1);
    views.insert(views.end(), tied.begin(), tied.end());
  }
  return views;
}

void Replicas::passed_by_backward(int layer) {
  for (const Piece& piece : pieces_) {
    if (piece.first_layer == layer) builder_.free(piece.replica);
  }
}

}  // namespace stepcast::dp
