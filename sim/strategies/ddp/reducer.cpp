#include "sim/strategies/ddp/reducer.hpp"

#include <algorithm>
#include <string>

#include "sim/strategies/common/layouts.hpp"
#include "sim/strategies/common/view_list.hpp"

namespace stepcast::ddp {
namespace {

const Name verb_copy_in("copy_in");
const Name verb_copy_out("copy_out");
const Name verb_accumulate("accumulate");
const Name verb_all_reduce("all_reduce");
const Name rule_order("ddp.buckets-in-index-order");
const Name rule_average("ddp.average-in-copy-in");
const Name rule_finalize("ddp.finalize-backward");
const Name cost_hook("ddp_grad_hook");
const Name cost_finalize("ddp_finalize");

Bytes gradient_bytes(const TrainingStep& step, int parameter) {
  return step.model.parameters[static_cast<std::size_t>(parameter)].elements() *
         bytes_per_element(step.precision.gradient);
}

}  // namespace

std::vector<int> ready_order(const Model& model, const LayerWalk& walk) {
  std::vector<int> order;
  order.reserve(model.parameters.size());
  for (int layer = walk.layers(); layer-- > 0;) {
    const int first = model.layers[static_cast<std::size_t>(layer)].first_parameter;
    for (const BackwardKernel& kernel : walk.work(layer).backward) {
      for (const int parameter : kernel.ready) order.push_back(first + parameter);
    }
  }
  STEPCAST_ASSERT(order.size() == model.parameters.size(),
                  "backward must make every gradient ready exactly once");
  return order;
}

Reducer::Reducer(ScheduleBuilder& builder, const TrainingStep& step, const LayerWalk& walk,
                 std::vector<Bucket> buckets, const std::string& label, Streams streams,
                 bool persistent)
    : builder_(builder), step_(step), buckets_(std::move(buckets)), streams_(streams) {
  const std::size_t parameters = step.model.parameters.size();
  bucket_of_.resize(parameters);
  slice_offset_.resize(parameters);
  tensor_.resize(parameters);
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    const std::string name = "bucket." + label + std::to_string(b);
    bucket_buffers_.push_back(
        persistent
            ? builder.persistent(name, BufferKind::bucket, step.precision.reduce, buckets_[b].bytes)
            : builder.buffer(name, BufferKind::bucket, step.precision.reduce, buckets_[b].bytes,
                             streams.compute));
    Bytes offset = 0;
    for (const int parameter : buckets_[b].tensors) {
      bucket_of_[static_cast<std::size_t>(parameter)] = static_cast<int>(b);
      slice_offset_[static_cast<std::size_t>(parameter)] = offset;
      offset += gradient_bytes(step, parameter);
    }
  }
  reductions_.assign(buckets_.size(), -1);
  plan_pieces(walk);
  for (std::size_t p = 0; p < pieces_.size(); ++p) {
    Piece& piece = pieces_[p];
    if (piece.bytes == 0) continue;
    const std::string suffix = label + std::to_string(p);
    piece.gradients = builder.buffer("gradients." + suffix, BufferKind::gradient,
                                     step.precision.gradient, piece.bytes, streams.compute);
    const std::vector<Placed> placed = one_after_another(step.model, piece.parameters);
    whole_layout(builder, piece.gradients, placed);
    Bytes offset = 0;
    for (const int parameter : piece.parameters) {
      const Bytes bytes = gradient_bytes(step, parameter);
      tensor_[static_cast<std::size_t>(parameter)] = {piece.gradients, offset, bytes};
      offset += bytes;
    }
    if (step.accumulation > 1) {
      piece.fresh = builder.buffer("fresh_gradients." + suffix, BufferKind::gradient,
                                   step.precision.gradient, piece.bytes, streams.compute);
      whole_layout(builder, piece.fresh, placed);
    }
  }
}

void Reducer::alloc_buckets() {
  for (const BufferIndex bucket : bucket_buffers_) builder_.alloc(bucket);
}

void Reducer::free_buckets() {
  for (const BufferIndex bucket : bucket_buffers_) builder_.free(bucket);
}

void Reducer::plan_pieces(const LayerWalk& walk) {
  std::vector<int> pending;
  for (const Bucket& bucket : buckets_) pending.push_back(static_cast<int>(bucket.tensors.size()));
  int next_bucket = 0;
  const int buckets = static_cast<int>(buckets_.size());
  piece_range_.resize(static_cast<std::size_t>(walk.layers()));
  for (int layer = walk.layers(); layer-- > 0;) {
    const std::vector<BackwardKernel>& kernels = walk.work(layer).backward;
    const int first_parameter = step_.model.layers[static_cast<std::size_t>(layer)].first_parameter;
    const auto first_piece = static_cast<std::int32_t>(pieces_.size());
    Piece piece;
    piece.layer = layer;
    for (std::size_t k = 0; k < kernels.size(); ++k) {
      ++piece.kernel_count;
      for (const int local : kernels[k].ready) {
        const int parameter = first_parameter + local;
        piece.parameters.push_back(parameter);
        piece.bytes += gradient_bytes(step_, parameter);
        --pending[static_cast<std::size_t>(bucket_of_[static_cast<std::size_t>(parameter)])];
      }
      while (next_bucket < buckets && pending[static_cast<std::size_t>(next_bucket)] == 0) {
        piece.launches.push_back(next_bucket++);
      }
      const bool last = k + 1 == kernels.size();
      if (!piece.launches.empty() || last) {
        const int next_kernel = piece.first_kernel + piece.kernel_count;
        pieces_.push_back(std::move(piece));
        piece = Piece{};
        piece.layer = layer;
        piece.first_kernel = next_kernel;
      }
    }
    piece_range_[static_cast<std::size_t>(layer)] = {
        first_piece, static_cast<std::int32_t>(pieces_.size()) - first_piece};
  }
  STEPCAST_ASSERT(next_bucket == buckets, "a bucket that is never complete");
}

std::span<const Piece> Reducer::pieces_of(int layer) const {
  const Range range = piece_range_[static_cast<std::size_t>(layer)];
  return {pieces_.data() + range.first, static_cast<std::size_t>(range.count)};
}

void Reducer::before_piece(const Piece& piece, bool accumulating, int micro_batch) {
  if (piece.gradients < 0) return;
  builder_.at(Phase::backward, -1, micro_batch);
  builder_.alloc(accumulating ? piece.fresh : piece.gradients);
}

View Reducer::produced(const Piece& piece, bool accumulating) const {
  if (piece.gradients < 0) return {};
  return builder_.whole(accumulating ? piece.fresh : piece.gradients);
}

std::vector<View> Reducer::slices_of(const Piece& piece) const {
  std::vector<View> slices;
  slices.reserve(piece.parameters.size());
  for (const int parameter : piece.parameters) {
    const auto p = static_cast<std::size_t>(parameter);
    slices.push_back({bucket_buffers_[static_cast<std::size_t>(bucket_of_[p])], slice_offset_[p],
                      gradient_bytes(step_, parameter)});
  }
  return slices;
}

void Reducer::after_piece(const Piece& piece, LayerWalk& walk, bool accumulating, bool reduce,
                          int micro_batch) {
  if (piece.gradients < 0) return;
  const int count = static_cast<int>(piece.parameters.size());
  const auto run = [&](Name verb, const Kernel& kernel, std::span<const View> reads,
                       std::span<const View> writes) {
    walk.ran_on_compute(builder_.one_kernel(verb, streams_.compute, kernel, reads, writes));
  };
  const std::vector<View> slices = slices_of(piece);
  // Where this step's gradients are: tensors of their own, or the bucket after an earlier
  // reduction.
  std::vector<View> home;
  if (aliased_) {
    home = slices;
  } else {
    home.push_back(builder_.whole(piece.gradients));
  }
  builder_.at(Phase::backward, walk.unit(piece.layer), micro_batch);
  builder_.host_work(cost_hook, count);
  if (accumulating) {
    // AccumulateGrad adds in place: read both, write the sum.
    std::vector<View> reads = home;
    reads.push_back(builder_.whole(piece.fresh));
    run(verb_accumulate,
        memory_bound(verb_accumulate, step_.precision.gradient, 2 * piece.bytes, piece.bytes,
                     count),
        reads, home);
    builder_.free(piece.fresh);
  }
  if (!reduce) return;
  // One kernel a parameter: gradient x 1/W into the bucket's slice (in place where it aliases it).
  builder_.rule(rule_average);
  run(verb_copy_in,
      memory_bound(verb_copy_in, step_.precision.gradient, piece.bytes, piece.bytes, count), home,
      slices);
  if (step_.strategy.gradient_as_bucket_view && !aliased_) builder_.free(piece.gradients);
  if (!piece.launches.empty()) builder_.stream_wait(streams_.nccl, walk.last_compute());
  for (const int bucket : piece.launches) launch(bucket, micro_batch);
}

void Reducer::launch(int bucket, int micro_batch) {
  const auto b = static_cast<std::size_t>(bucket);
  builder_.at(Phase::backward, builder_.unit("bucket" + std::to_string(bucket)), micro_batch);
  builder_.rule(rule_order);
  const View view = builder_.whole(bucket_buffers_[b]);
  reductions_[b] = builder_.collective(
      verb_all_reduce, CollectiveKind::all_reduce, streams_.world, streams_.nccl,
      step_.precision.reduce, buckets_[b].bytes / bytes_per_element(step_.precision.reduce),
      Reduction::sum, ViewList(view), ViewList(view));
}

void Reducer::finalize(LayerWalk& walk, int micro_batch) {
  builder_.at(Phase::backward, -1, micro_batch);
  builder_.host_work(cost_finalize, static_cast<int>(buckets_.size()));
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    const Bucket& bucket = buckets_[b];
    builder_.at(Phase::backward, builder_.unit("bucket" + std::to_string(b)), micro_batch);
    builder_.rule(rule_finalize);
    builder_.stream_wait(streams_.compute, reductions_[b]);
    if (step_.strategy.gradient_as_bucket_view) continue;
    std::vector<View> tensors;
    tensors.reserve(bucket.tensors.size());
    for (const int parameter : bucket.tensors) {
      tensors.push_back(tensor_[static_cast<std::size_t>(parameter)]);
    }
    const Kernel copy = memory_bound(verb_copy_out, step_.precision.gradient, bucket.bytes,
                                     bucket.bytes, static_cast<int>(bucket.tensors.size()));
    walk.ran_on_compute(builder_.one_kernel(verb_copy_out, streams_.compute, copy,
                                            ViewList(builder_.whole(bucket_buffers_[b])), tensors));
  }
  aliased_ = step_.strategy.gradient_as_bucket_view;
}

void Reducer::drop_gradients() {
  builder_.at(Phase::optimizer);
  aliased_ = false;
  if (step_.strategy.gradient_as_bucket_view) return;  // freed when they were copied in
  for (const Piece& piece : pieces_) {
    if (piece.gradients >= 0) builder_.free(piece.gradients);
  }
}

std::vector<View> Reducer::gradients() const {
  std::vector<View> views;
  if (step_.strategy.gradient_as_bucket_view) {
    for (const BufferIndex bucket : bucket_buffers_) views.push_back(builder_.whole(bucket));
  } else {
    for (const Piece& piece : pieces_) {
      if (piece.gradients >= 0) views.push_back(builder_.whole(piece.gradients));
    }
  }
  return views;
}

}  // namespace stepcast::ddp
