#include "sim/strategies/ddp/gradient_tensors.hpp"

#include <numeric>
#include <utility>

#include "sim/strategies/common/layouts.hpp"
#include "sim/strategies/ddp/unused.hpp"

namespace stepcast::ddp {
namespace {

// Joins neighbours: the slices of one bucket, the tensors of one piece.
void append(std::vector<View>& views, View view) {
  if (!views.empty() && views.back().buffer == view.buffer &&
      views.back().offset + views.back().bytes == view.offset) {
    views.back().bytes += view.bytes;
  } else {
    views.push_back(view);
  }
}

}  // namespace

Bytes sum_of(std::span<const View> views) {
  Bytes sum = 0;
  for (const View& view : views) sum += view.bytes;
  return sum;
}

GradientTensors::GradientTensors(ScheduleBuilder& builder, const TrainingStep& step,
                                 const LayerWalk& walk, std::vector<Bucket> buckets, Setup setup)
    : builder_(builder),
      step_(step),
      setup_(std::move(setup)),
      views_(step.strategy.gradient_as_bucket_view),
      buckets_(std::move(buckets)),
      pieces_(plan_pieces(step, walk, buckets_, setup_.unused, marks_unused(step.strategy))) {
  kept_ = !step.strategy.zero_grad_set_to_none && setup_.persistent;
  in_buckets_ = kept_ && views_;
  late_kept_ = kept_ && !views_;
  const std::size_t parameters = step.model.parameters.size();
  bucket_of_.resize(parameters);
  slice_offset_.resize(parameters);
  tensor_.resize(parameters);
  piece_of_.resize(parameters, -1);
  declare_buckets();
  declare_pieces();
  declare_late();
}

Bytes GradientTensors::bytes_of(int parameter) const {
  return step_.model.parameters[static_cast<std::size_t>(parameter)].elements() *
         bytes_per_element(step_.precision.gradient);
}

void GradientTensors::declare_buckets() {
  const Dtype dtype = step_.precision.reduce;
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    const Bucket& bucket = buckets_[b];
    const std::string name = "bucket." + setup_.label + std::to_string(b);
    bucket_buffers_.push_back(
        setup_.persistent
            ? builder_.persistent(name, BufferKind::bucket, dtype, bucket.bytes)
            : builder_.buffer(name, BufferKind::bucket, dtype, bucket.bytes, setup_.pool));
    whole_layout(builder_, bucket_buffers_.back(), one_after_another(step_.model, bucket.tensors));
    Bytes offset = 0;
    for (const int parameter : bucket.tensors) {
      bucket_of_[static_cast<std::size_t>(parameter)] = static_cast<int>(b);
      slice_offset_[static_cast<std::size_t>(parameter)] = offset;
      offset += bytes_of(parameter);
    }
  }
}

// Gradients that outlive the step are there before it, unless they are views of the buckets.
BufferIndex GradientTensors::declare(const std::string& name, Bytes bytes) {
  const Dtype dtype = step_.precision.gradient;
  return kept_ && !views_ ? builder_.persistent(name, BufferKind::gradient, dtype, bytes)
                          : builder_.buffer(name, BufferKind::gradient, dtype, bytes, setup_.pool);
}

void GradientTensors::declare_pieces() {
  uncopied_.resize(pieces_.all.size());
  for (std::size_t p = 0; p < pieces_.all.size(); ++p) {
    Piece& piece = pieces_.all[p];
    if (piece.bytes == 0) continue;
    const std::string suffix = setup_.label + std::to_string(p);
    piece.gradients = declare("gradients." + suffix, piece.bytes);
    const std::vector<Placed> placed = one_after_another(step_.model, piece.parameters);
    whole_layout(builder_, piece.gradients, placed);
    Bytes offset = 0;
    for (const int parameter : piece.parameters) {
      tensor_[static_cast<std::size_t>(parameter)] = {piece.gradients, offset, bytes_of(parameter)};
      piece_of_[static_cast<std::size_t>(parameter)] = static_cast<int>(p);
      offset += bytes_of(parameter);
    }
    if (step_.accumulation > 1 || !step_.strategy.zero_grad_set_to_none) {
      piece.fresh = builder_.buffer("fresh_gradients." + suffix, BufferKind::gradient,
                                    step_.precision.gradient, piece.bytes, setup_.pool);
      whole_layout(builder_, piece.fresh, placed);
    }
  }
}

void GradientTensors::declare_late() {
  late_.resize(buckets_.size(), -1);
  if (setup_.unused.empty() || setup_.unused_by_all || views_) return;
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    std::vector<int> late;
    Bytes bytes = 0;
    for (const int p : buckets_[b].tensors) {
      if (!is_unused(p)) continue;
      late.push_back(p);
      bytes += bytes_of(p);
    }
    if (bytes == 0) continue;
    late_[b] = declare("late_gradients." + setup_.label + std::to_string(b), bytes);
    Bytes offset = 0;
    for (const int p : late) {
      tensor_[static_cast<std::size_t>(p)] = {late_[b], offset, bytes_of(p)};
      offset += bytes_of(p);
    }
    whole_layout(builder_, late_[b], one_after_another(step_.model, late));
  }
}

std::vector<int> GradientTensors::used(std::span<const int> parameters) const {
  std::vector<int> used;
  for (const int p : parameters) {
    if (!is_unused(p)) used.push_back(p);
  }
  return used;
}

std::vector<int> GradientTensors::used() const {
  std::vector<int> all(bucket_of_.size());
  std::iota(all.begin(), all.end(), 0);
  return used(all);
}

std::int64_t GradientTensors::updated_elements() const {
  std::int64_t elements = 0;
  for (int p = 0; p < static_cast<int>(bucket_of_.size()); ++p) {
    if (is_unused(p) && setup_.unused_by_all) continue;
    elements += step_.model.parameters[static_cast<std::size_t>(p)].elements();
  }
  return elements;
}

void GradientTensors::alloc_buckets() {
  for (const BufferIndex bucket : bucket_buffers_) builder_.alloc(bucket);
}

void GradientTensors::free_buckets() {
  for (const BufferIndex bucket : bucket_buffers_) builder_.free(bucket);
}

std::vector<View> GradientTensors::bucket_views() const {
  std::vector<View> views;
  for (const BufferIndex bucket : bucket_buffers_) views.push_back(builder_.whole(bucket));
  return views;
}

View GradientTensors::slice(int parameter) const {
  const auto p = static_cast<std::size_t>(parameter);
  return {bucket_buffers_[static_cast<std::size_t>(bucket_of_[p])], slice_offset_[p],
          bytes_of(parameter)};
}

std::vector<View> GradientTensors::slices(std::span<const int> parameters) const {
  std::vector<View> views;
  for (const int p : parameters) append(views, slice(p));
  return views;
}

std::vector<View> GradientTensors::home(std::span<const int> parameters) const {
  if (in_buckets_) return slices(parameters);
  std::vector<View> views;
  for (const int p : parameters) append(views, tensor_[static_cast<std::size_t>(p)]);
  return views;
}

std::vector<View> GradientTensors::all() const {
  if (in_buckets_) return bucket_views();
  std::vector<View> views;
  for (const Piece& piece : pieces_.all) {
    if (piece.gradients >= 0) views.push_back(builder_.whole(piece.gradients));
  }
  for (const BufferIndex buffer : late_) {
    if (buffer >= 0 && late_kept_) views.push_back(builder_.whole(buffer));
  }
  return views;
}

View GradientTensors::produced(const Piece& piece, int micro_batch) const {
  if (piece.gradients < 0) return {};
  return builder_.whole(adds(micro_batch) ? piece.fresh : piece.gradients);
}

void GradientTensors::begin(const Piece& piece, int micro_batch) {
  builder_.alloc(adds(micro_batch) ? piece.fresh : piece.gradients);
  if (adds(micro_batch)) return;
  uncopied_[static_cast<std::size_t>(&piece - pieces_.all.data())] = piece.parameters.size();
}

void GradientTensors::copied_in(std::span<const int> parameters) {
  if (!views_ || in_buckets_) return;
  for (const int p : parameters) {
    const auto piece = static_cast<std::size_t>(piece_of_[static_cast<std::size_t>(p)]);
    if (--uncopied_[piece] == 0) builder_.free(pieces_.all[piece].gradients);
  }
}

GradientTensors::Target GradientTensors::copy_out_of(std::size_t bucket) {
  Target to;
  if (views_) return to;
  for (const int p : buckets_[bucket].tensors) {
    if (is_unused(p) && setup_.unused_by_all) continue;  // nobody's gradient: left as it is
    to.parameters.push_back(p);
    append(to.tensors, tensor_[static_cast<std::size_t>(p)]);
  }
  if (late_[bucket] >= 0 && !late_kept_) builder_.alloc(late_[bucket]);
  return to;
}

void GradientTensors::reduced() {
  in_buckets_ = views_;
  late_kept_ = true;
}

void GradientTensors::never_reduced() { in_buckets_ = views_ && !step_.strategy.batched_grad_copy; }

void GradientTensors::drop() {
  if (!step_.strategy.zero_grad_set_to_none) {
    kept_ = true;
    return;
  }
  in_buckets_ = false;
  const bool late = std::exchange(late_kept_, false);
  for (std::size_t p = 0; p < pieces_.all.size(); ++p) {
    if (uncopied_[p] > 0) builder_.free(pieces_.all[p].gradients);  // not a view of its bucket
    uncopied_[p] = 0;
  }
  for (const BufferIndex buffer : late_) {
    if (buffer >= 0 && late) builder_.free(buffer);
  }
}

void GradientTensors::take_over(GradientTensors& from) {
  kept_ = from.kept_;
  in_buckets_ = from.in_buckets_;
  late_kept_ = from.late_kept_;
  if (!kept_ || views_) return;
  // The tensors stay where they are; only their grouping into pieces changes.
  const auto each = [](GradientTensors& of, auto&& apply) {
    for (const Piece& piece : of.pieces_.all) apply(piece.gradients);
    for (const BufferIndex late : of.late_) apply(late);
  };
  each(from, [&](BufferIndex b) {
    if (b >= 0) builder_.free(b);
  });
  each(*this, [&](BufferIndex b) {
    if (b >= 0) builder_.alloc(b);
  });
}

}  // namespace stepcast::ddp
