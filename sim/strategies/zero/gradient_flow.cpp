#include "sim/strategies/zero/gradient_flow.hpp"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "sim/strategies/common/layouts.hpp"
#include "sim/strategies/common/view_list.hpp"
#include "sim/strategies/ddp/reducer.hpp"

namespace stepcast::zero {
namespace {

const Name verb_accumulate("accumulate");
const Name verb_copy_in("copy_in");
const Name verb_divide("divide");
const Name verb_flatten("flatten");
const Name verb_all_reduce("all_reduce");
const Name verb_reduce("reduce_to_owner");
const Name verb_keep("keep_owned");
const Name verb_add("add_partition");
const Name verb_zero("zero_grad");
const Name rule_flush("zero.flush-by-the-next-gradient");
const Name rule_serial("zero.compute-waits-previous-flush");
const Name rule_epilogue("zero.epilogue-device-synchronize");
const Name cost_hook("zero_grad_hook");
const Name cost_flush("zero_flush");

}  // namespace

GradientFlow::GradientFlow(ScheduleBuilder& builder, const TrainingStep& step, LayerWalk& walk,
                           Streams streams, BufferIndex partition, BufferIndex fresh_partition,
                           std::int64_t per_rank)
    : builder_(builder),
      step_(step),
      walk_(walk),
      streams_(streams),
      partition_(partition),
      fresh_partition_(fresh_partition),
      per_rank_(per_rank),
      after_backward_(step.strategy.kind == StrategyKind::zero1 && !overlaps()),
      persists_(step.strategy.kind == StrategyKind::zero1 && !step.strategy.zero_grad_set_to_none),
      has_gradients_(persists_) {
  std::int64_t offset = 0;
  for (const Parameter& parameter : step.model.parameters) {
    numels_.push_back(parameter.elements());
    flat_offset_.push_back(offset);
    offset += numels_.back();
  }
  std::vector<int> arrival(numels_.size());
  if (after_backward_) {
    std::iota(arrival.begin(), arrival.end(), 0);
  } else {
    arrival = ddp::ready_order(step.model, walk);
  }
  flushes_ = plan_flushes(numels_, arrival, step.strategy.reduce_bucket_elements);
  slice_.resize(numels_.size());
  for (const Flush& flush : flushes_) {
    Bytes place = 0;
    for (const int parameter : flush.parameters) {
      slice_[static_cast<std::size_t>(parameter)] = place;
      place += bytes_of(parameter);
    }
  }
  plan_pieces();
  declare_buffers();
}

Bytes GradientFlow::bytes_of(int parameter) const {
  return numels_[static_cast<std::size_t>(parameter)] * bytes_per_element(step_.precision.gradient);
}

bool GradientFlow::copied(int parameter) const {
  return step_.strategy.contiguous_gradients &&
         numels_[static_cast<std::size_t>(parameter)] <= step_.strategy.reduce_bucket_elements;
}

// A layer's backward is cut after every kernel that makes a gradient ready which flushes the
// bucket.
void GradientFlow::plan_pieces() {
  std::vector<bool> triggers(numels_.size(), false);
  if (!after_backward_) {
    for (const Flush& flush : flushes_) {
      if (flush.triggered_by >= 0) triggers[static_cast<std::size_t>(flush.triggered_by)] = true;
    }
  }
  pieces_.resize(step_.model.layers.size());
  for (int layer = walk_.layers(); layer-- > 0;) {
    const std::vector<BackwardKernel>& kernels = walk_.work(layer).backward;
    const int first = step_.model.layers[static_cast<std::size_t>(layer)].first_parameter;
    Piece piece;
    for (std::size_t k = 0; k < kernels.size(); ++k) {
      ++piece.kernel_count;
      bool cut = k + 1 == kernels.size();
      for (const int local : kernels[k].ready) {
        piece.parameters.push_back(first + local);
        piece.bytes += bytes_of(first + local);
        cut = cut || triggers[static_cast<std::size_t>(first + local)];
      }
      if (!cut) continue;
      const int next = piece.first_kernel + piece.kernel_count;
      pieces_[static_cast<std::size_t>(layer)].push_back(std::move(piece));
      piece = Piece{};
      piece.first_kernel = next;
    }
  }
}

void GradientFlow::declare_buffers() {
  const Dtype dtype = step_.precision.gradient;
  tensor_.resize(numels_.size());
  for (std::size_t layer = 0; layer < pieces_.size(); ++layer) {
    for (std::size_t p = 0; p < pieces_[layer].size(); ++p) {
      Piece& piece = pieces_[layer][p];
      if (piece.bytes == 0) continue;
      const std::string suffix =
          "." + step_.model.layers[layer].name.str() + (p > 0 ? "." + std::to_string(p) : "");
      piece.gradients = persists_ ? builder_.persistent("gradients" + suffix, BufferKind::gradient,
                                                        dtype, piece.bytes)
                                  : builder_.buffer("gradients" + suffix, BufferKind::gradient,
                                                    dtype, piece.bytes, streams_.compute);
      const std::vector<Placed> placed = one_after_another(step_.model, piece.parameters);
      whole_layout(builder_, piece.gradients, placed);
      if (persists_ || (step_.strategy.kind == StrategyKind::zero1 && step_.accumulation > 1)) {
        piece.fresh = builder_.buffer("fresh_gradients" + suffix, BufferKind::gradient, dtype,
                                      piece.bytes, streams_.compute);
        whole_layout(builder_, piece.fresh, placed);
      }
      Bytes offset = 0;
      for (const int parameter : piece.parameters) {
        tensor_[static_cast<std::size_t>(parameter)] = {piece.gradients, offset,
                                                        bytes_of(parameter)};
        offset += bytes_of(parameter);
      }
    }
  }
  std::int64_t largest = 0;
  for (const Flush& flush : flushes_) largest = std::max(largest, flush.elements);
  const Bytes size = bytes_per_element(dtype);
  if (step_.strategy.contiguous_gradients) {
    for (int i = 0; i < (overlaps() ? 2 : 1); ++i) {
      buckets_.push_back(builder_.buffer("ipg_bucket" + std::to_string(i), BufferKind::bucket,
                                         dtype, step_.strategy.reduce_bucket_elements * size,
                                         streams_.compute));
    }
  }
  flat_copy_ =
      builder_.buffer("flat_bucket", BufferKind::bucket, dtype, largest * size, streams_.reduction);
}

OpIndex GradientFlow::run(Name verb, StreamIndex stream, Bytes read, Bytes written,
                          std::span<const View> reads, std::span<const View> writes, int launches) {
  return walk_.run(stream, memory_bound(verb, step_.precision.gradient, read, written, launches),
                   reads, writes);
}

void GradientFlow::begin_backward(int micro_batch) {
  const bool last = micro_batch == step_.accumulation - 1;
  const bool stage1 = step_.strategy.kind == StrategyKind::zero1;
  // Stage 1 reduces only at the boundary, and then from the accumulated gradients.
  keep_ = stage1 && (after_backward_ || !last);
  reduce_ = !stage1 || (last && !after_backward_);
  next_flush_ = 0;
  partition_filled_ = 0;
  reduction_tail_ = -1;
  builder_.at(Phase::backward, -1, micro_batch);
  if (reduce_ || (last && after_backward_)) {
    for (const BufferIndex bucket : buckets_) builder_.alloc(bucket);
    builder_.alloc(has_partition_ ? fresh_partition_ : partition_);
  }
}

void GradientFlow::backward(int layer, int micro_batch, std::span<const View> weights) {
  walk_.begin_backward(layer, micro_batch, weights);
  for (const Piece& piece : pieces_[static_cast<std::size_t>(layer)]) {
    builder_.at(Phase::backward, walk_.unit(layer), micro_batch);
    View produced;
    if (piece.gradients >= 0) {
      const BufferIndex buffer = has_gradients_ ? piece.fresh : piece.gradients;
      builder_.alloc(buffer);
      produced = builder_.whole(buffer);
    }
    walk_.backward_piece(layer, piece.first_kernel, piece.kernel_count, weights,
                         ViewList(produced));
    if (piece.gradients < 0) continue;
    builder_.at(Phase::backward, walk_.unit(layer), micro_batch);
    builder_.host_work(cost_hook, static_cast<int>(piece.parameters.size()));
    if (has_gradients_) accumulate(piece, layer, micro_batch);
    if (!reduce_) continue;
    bool all_copied = true;
    for (const int parameter : piece.parameters) all_copied = all_copied && copied(parameter);
    add_to_bucket(piece.parameters);
    if (persists_) continue;
    // The last gradient is in no flush yet: where it is not copied, the piece lives until the next.
    if (all_copied) {
      builder_.free(piece.gradients);
    } else {
      unflushed_.push_back(piece.gradients);
    }
  }
  walk_.end_backward(layer);
}

void GradientFlow::accumulate(const Piece& piece, int layer, int micro_batch) {
  builder_.at(Phase::backward, walk_.unit(layer), micro_batch);
  const View sum = builder_.whole(piece.gradients);
  run(verb_accumulate, streams_.compute, 2 * piece.bytes, piece.bytes,
      ViewList(builder_.whole(piece.fresh)).add(sum), ViewList(sum),
      static_cast<int>(piece.parameters.size()));
  builder_.free(piece.fresh);
}

// Gradients arrive one by one; the one that does not fit flushes what is there first.
void GradientFlow::add_to_bucket(std::span<const int> parameters) {
  std::size_t begin = 0;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (next_flush_ < flushes_.size() && flushes_[next_flush_].triggered_by == parameters[i]) {
      copy_into_bucket(parameters.subspan(begin, i - begin));
      begin = i;
      flush();
    }
  }
  copy_into_bucket(parameters.subspan(begin));
}

void GradientFlow::copy_into_bucket(std::span<const int> parameters) {
  std::vector<View> from;
  std::vector<View> to;
  Bytes bytes = 0;
  for (const int parameter : parameters) {
    if (!copied(parameter)) continue;
    const auto p = static_cast<std::size_t>(parameter);
    from.push_back(tensor_[p]);
    to.push_back({buckets_[turn_], slice_[p], bytes_of(parameter)});
    bytes += bytes_of(parameter);
  }
  if (from.empty()) return;
  run(verb_copy_in, streams_.compute, bytes, bytes, from, to, static_cast<int>(from.size()));
}

std::vector<View> GradientFlow::bucket_views(const Flush& flush) const {
  std::vector<View> views;
  for (const int parameter : flush.parameters) {
    const auto p = static_cast<std::size_t>(parameter);
    if (copied(parameter)) {
      views.push_back({buckets_[turn_], slice_[p], bytes_of(parameter)});
    } else {
      views.push_back(tensor_[p]);
    }
  }
  return views;
}

void GradientFlow::flush() {
  const Flush& flush = flushes_[next_flush_++];
  const std::vector<View> input = bucket_views(flush);
  const Bytes bytes = flush.elements * bytes_per_element(step_.precision.gradient);
  builder_.rule(rule_flush);
  builder_.host_work(cost_flush, 1);
  if (overlaps()) {
    builder_.stream_wait(streams_.reduction, walk_.last_compute());
    if (reduction_tail_ >= 0) {
      builder_.rule(rule_serial);
      builder_.stream_wait(streams_.compute, reduction_tail_);
      builder_.rule(rule_flush);
    }
  }
  run(verb_divide, streams_.reduction, bytes, bytes, input, input,
      static_cast<int>(step_.strategy.contiguous_gradients ? 1 : input.size()));
  const bool whole_bucket = step_.strategy.contiguous_gradients &&
                            std::all_of(flush.parameters.begin(), flush.parameters.end(),
                                        [&](int parameter) { return copied(parameter); });
  if (!step_.strategy.reduce_scatter && whole_bucket) {
    average_in_place(input, bytes);
  } else if (step_.strategy.multi_rank_all_reduce || !step_.strategy.reduce_scatter) {
    average_all(input, bytes);
  } else {
    reduce_to_owners(flush, input);
  }
  builder_.rule(Name());
  for (const BufferIndex piece : unflushed_) {
    builder_.free_after_streams(piece, std::span<const StreamIndex>(&streams_.reduction, 1));
  }
  unflushed_.clear();
  if (!buckets_.empty()) turn_ = (turn_ + 1) % buckets_.size();
}

// The default: one all-reduce of a flat copy of the whole bucket; only owned slices are kept.
void GradientFlow::average_all(std::span<const View> input, Bytes bytes) {
  builder_.alloc(flat_copy_);
  const View flat{flat_copy_, 0, bytes};
  run(verb_flatten, streams_.reduction, bytes, bytes, input, ViewList(flat));
  builder_.collective(verb_all_reduce, CollectiveKind::all_reduce, streams_.world,
                      streams_.reduction, step_.precision.gradient,
                      bytes / bytes_per_element(step_.precision.gradient), Reduction::sum,
                      ViewList(flat), ViewList(flat));
  keep_owned(ViewList(flat), bytes);
  builder_.free(flat_copy_);
}

// reduce_scatter false: the contiguous bucket itself is all-reduced, without a flat copy.
void GradientFlow::average_in_place(std::span<const View> input, Bytes bytes) {
  const ViewList bucket(View{buckets_[turn_], 0, bytes});  // its slices, side by side
  const OpIndex op = builder_.collective(
      verb_all_reduce, CollectiveKind::all_reduce, streams_.world, streams_.reduction,
      step_.precision.gradient, bytes / bytes_per_element(step_.precision.gradient), Reduction::sum,
      bucket, bucket);
  if (!overlaps()) walk_.ran_on_compute(op);
  keep_owned(input, bytes);
}

// Merged slices of each owner that the bucket touches, one reduce each.
void GradientFlow::reduce_to_owners(const Flush& flush, std::span<const View> input) {
  std::vector<std::int64_t> owned(static_cast<std::size_t>(step_.mesh.world_size()), 0);
  for (const int parameter : flush.parameters) {
    const auto p = static_cast<std::size_t>(parameter);
    std::int64_t begin = flat_offset_[p];
    const std::int64_t end = begin + numels_[p];
    while (begin < end) {
      const std::int64_t owner = begin / per_rank_;
      const std::int64_t stop = std::min(end, (owner + 1) * per_rank_);
      owned[static_cast<std::size_t>(owner)] += stop - begin;
      begin = stop;
    }
  }
  for (std::size_t owner = 0; owner < owned.size(); ++owner) {
    if (owned[owner] == 0) continue;
    builder_.collective(verb_reduce, CollectiveKind::reduce, streams_.world, streams_.reduction,
                        step_.precision.gradient, owned[owner], Reduction::sum, input, input,
                        static_cast<int>(owner));
  }
  keep_owned(input, flush.elements * bytes_per_element(step_.precision.gradient));
}

// This rank's slices go to its partition. Which ones differs by rank; on average 1/W of a bucket.
void GradientFlow::keep_owned(std::span<const View> input, Bytes bytes) {
  const Bytes size = bytes_per_element(step_.precision.gradient);
  const Bytes whole = per_rank_ * size;
  const bool last = next_flush_ == flushes_.size();
  const Bytes share =
      last ? whole - partition_filled_
           : std::min(bytes / step_.mesh.world_size() / size * size, whole - partition_filled_);
  const View slot{has_partition_ ? fresh_partition_ : partition_, partition_filled_, share};
  partition_filled_ += share;
  reduction_tail_ =
      run(verb_keep, streams_.reduction, 2 * share, 2 * share, input, ViewList(slot), 2);
}

void GradientFlow::end_backward(int micro_batch) {
  const bool last = micro_batch == step_.accumulation - 1;
  builder_.at(Phase::backward, -1, micro_batch);
  if (keep_) has_gradients_ = true;
  if (last && after_backward_) {
    std::vector<int> definition(numels_.size());
    std::iota(definition.begin(), definition.end(), 0);
    for (const std::vector<Piece>& layer : pieces_) {
      for (const Piece& piece : layer) {
        if (piece.gradients >= 0 && !persists_) unflushed_.push_back(piece.gradients);
      }
    }
    std::vector<BufferIndex> all = std::exchange(unflushed_, {});
    add_to_bucket(definition);
    unflushed_ = std::move(all);
    reduce_ = true;
    has_gradients_ = persists_;
  }
  if (!reduce_) return;
  flush();
  if (overlaps()) {
    builder_.rule(rule_epilogue);
    builder_.host_wait_device();
    builder_.rule(Name());
  }
  if (has_partition_) {
    const View sum = builder_.whole(partition_);
    run(verb_add, streams_.compute, 2 * sum.bytes, sum.bytes,
        ViewList(builder_.whole(fresh_partition_)).add(sum), ViewList(sum));
    builder_.free(fresh_partition_);
  }
  for (const BufferIndex bucket : buckets_) builder_.free(bucket);
  has_partition_ = true;
}

void GradientFlow::drop_gradients() {
  builder_.at(Phase::optimizer);
  builder_.free(partition_);
  has_partition_ = false;
  has_gradients_ = persists_;
  if (!persists_) return;
  std::vector<View> all;
  Bytes bytes = 0;
  for (const std::vector<Piece>& layer : pieces_) {
    for (const Piece& piece : layer) {
      if (piece.gradients < 0) continue;
      all.push_back(builder_.whole(piece.gradients));
      bytes += piece.bytes;
    }
  }
  run(verb_zero, streams_.compute, 0, bytes, {}, all, static_cast<int>(all.size()));
}

}  // namespace stepcast::zero
