#include "sim/strategies/ddp/reducer.hpp"

#include <algorithm>
#include <utility>

#include "sim/strategies/common/layouts.hpp"
#include "sim/strategies/common/view_list.hpp"

namespace stepcast::ddp {
namespace {

const Name verb_copy_in("copy_in");
const Name verb_copy_out("copy_out");
const Name verb_divide("divide");
const Name verb_accumulate("accumulate");
const Name verb_zero("zero_grad");
const Name verb_zero_slices("zero_slices");
const Name rule_average("ddp.average-in-copy-in");
const Name rule_batched("ddp.one-copy-a-bucket");
const Name rule_divide("ddp.one-division-a-bucket");
const Name rule_finalize("ddp.finalize-backward");
const Name rule_keep("ddp.zero-grad-keeps-gradients");
const Name rule_mark("ddp.unused-parameters-are-marked-ready");
const Name rule_delayed("ddp.static-graph-reduces-after-backward");
const Name cost_hook("ddp_grad_hook");
const Name cost_finalize("ddp_finalize");

// multi_tensor_apply on one and on two lists: tensors a launch.
constexpr std::int64_t zero_tensors_a_launch = 110;
constexpr std::int64_t copy_tensors_a_launch = 64;

Bytes gradient_bytes(const TrainingStep& step, int parameter) {
  return step.model.parameters[static_cast<std::size_t>(parameter)].elements() *
         bytes_per_element(step.precision.gradient);
}

// Joins neighbours: the slices of one bucket, the tensors of one piece.
void append(std::vector<View>& views, View view) {
  if (!views.empty() && views.back().buffer == view.buffer &&
      views.back().offset + views.back().bytes == view.offset) {
    views.back().bytes += view.bytes;
  } else {
    views.push_back(view);
  }
}

Bytes sum_of(std::span<const View> views) {
  Bytes sum = 0;
  for (const View& view : views) sum += view.bytes;
  return sum;
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

std::vector<int> ready_order(const TrainingStep& step) {
  ScheduleBuilder scratch("ready order", step.mesh);
  const LayerWalk walk(scratch, step, scratch.stream("compute"));
  return ready_order(step.model, walk);
}

bool reduces(const TrainingStep& step, int micro_batch) {
  return step.strategy.accumulation_sync != AccumulationSync::last ||
         micro_batch == step.accumulation - 1;
}

Reducer::Reducer(ScheduleBuilder& builder, const TrainingStep& step, const LayerWalk& walk,
                 std::vector<Bucket> buckets, Setup setup)
    : builder_(builder),
      step_(step),
      setup_(std::move(setup)),
      views_(step.strategy.gradient_as_bucket_view),
      divides_buckets_(step.strategy.bucket_rule == BucketRule::pytorch_1_4),
      buckets_(std::move(buckets)) {
  const std::size_t parameters = step.model.parameters.size();
  bucket_of_.resize(parameters);
  slice_offset_.resize(parameters);
  tensor_.resize(parameters);
  piece_of_.resize(parameters, -1);
  late_.resize(buckets_.size(), -1);
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    const std::string name = "bucket." + setup_.label + std::to_string(b);
    bucket_buffers_.push_back(
        setup_.persistent
            ? builder.persistent(name, BufferKind::bucket, step.precision.reduce, buckets_[b].bytes)
            : builder.buffer(name, BufferKind::bucket, step.precision.reduce, buckets_[b].bytes,
                             setup_.streams.compute));
    whole_layout(builder, bucket_buffers_.back(),
                 one_after_another(step.model, buckets_[b].tensors));
    Bytes offset = 0;
    for (const int parameter : buckets_[b].tensors) {
      bucket_of_[static_cast<std::size_t>(parameter)] = static_cast<int>(b);
      slice_offset_[static_cast<std::size_t>(parameter)] = offset;
      offset += gradient_bytes(step, parameter);
    }
  }
  reductions_.assign(buckets_.size(), -1);
  pieces_ = plan_pieces(step, walk, buckets_, setup_.unused, marks_unused(step.strategy));
  alive_ = !step.strategy.zero_grad_set_to_none && setup_.persistent;
  aliased_ = alive_ && views_;
  declare_gradients();
  const HookPlace place{builder, step, setup_.streams, setup_.label};
  early_ = make_reduction(hook_of_iteration(setup_.hook, false), place, buckets_);
  if (setup_.hook == CommHook::power_sgd && setup_.steady) {
    steady_ = make_reduction(setup_.hook, place, buckets_);
  }
  begin_iteration(false, true);
}

void Reducer::begin_iteration(bool delayed, bool steady) {
  delayed_ = delayed;
  map_ = setup_.used_map != nullptr && (delayed || !step_.strategy.static_graph);
  reduction_ = steady && steady_ ? steady_.get() : early_.get();
}

void Reducer::declare_gradients() {
  const Dtype dtype = step_.precision.gradient;
  const StreamIndex pool = setup_.streams.compute;
  // Gradients that outlive the step are there before it, unless they are views of the buckets.
  const bool kept = alive_ && !views_;
  const auto declare = [&](const std::string& name, Bytes bytes) {
    return kept ? builder_.persistent(name, BufferKind::gradient, dtype, bytes)
                : builder_.buffer(name, BufferKind::gradient, dtype, bytes, pool);
  };
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
      const Bytes bytes = gradient_bytes(step_, parameter);
      tensor_[static_cast<std::size_t>(parameter)] = {piece.gradients, offset, bytes};
      piece_of_[static_cast<std::size_t>(parameter)] = static_cast<int>(p);
      offset += bytes;
    }
    if (step_.accumulation > 1 || !step_.strategy.zero_grad_set_to_none) {
      piece.fresh = builder_.buffer("fresh_gradients." + suffix, BufferKind::gradient, dtype,
                                    piece.bytes, pool);
      whole_layout(builder_, piece.fresh, placed);
    }
  }
  if (setup_.unused.empty() || setup_.unused_by_all || views_) return;
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    Bytes bytes = 0;
    for (const int p : buckets_[b].tensors) bytes += is_unused(p) ? gradient_bytes(step_, p) : 0;
    if (bytes == 0) continue;
    late_[b] = declare("late_gradients." + setup_.label + std::to_string(b), bytes);
    Bytes offset = 0;
    std::vector<int> late;
    for (const int p : buckets_[b].tensors) {
      if (!is_unused(p)) continue;
      late.push_back(p);
      tensor_[static_cast<std::size_t>(p)] = {late_[b], offset, gradient_bytes(step_, p)};
      offset += gradient_bytes(step_, p);
    }
    whole_layout(builder_, late_[b], one_after_another(step_.model, late));
  }
  late_alive_ = kept;
}

void Reducer::alloc_buckets() {
  for (const BufferIndex bucket : bucket_buffers_) builder_.alloc(bucket);
}

void Reducer::free_buckets() {
  for (const BufferIndex bucket : bucket_buffers_) builder_.free(bucket);
}

void Reducer::take_over(Reducer& from) {
  alive_ = from.alive_;
  aliased_ = from.aliased_;
  late_alive_ = from.late_alive_;
  if (!alive_ || views_) return;
  // The tensors stay where they are; only their grouping into pieces changes.
  const auto each = [](Reducer& reducer, auto&& apply) {
    for (const Piece& piece : reducer.pieces_.all) apply(piece.gradients);
    for (const BufferIndex late : reducer.late_) apply(late);
  };
  each(from, [&](BufferIndex b) {
    if (b >= 0) builder_.free(b);
  });
  each(*this, [&](BufferIndex b) {
    if (b >= 0) builder_.alloc(b);
  });
}

View Reducer::slice(int parameter) const {
  const auto p = static_cast<std::size_t>(parameter);
  return {bucket_buffers_[static_cast<std::size_t>(bucket_of_[p])], slice_offset_[p],
          gradient_bytes(step_, parameter)};
}

std::vector<View> Reducer::slices(std::span<const int> parameters) const {
  std::vector<View> views;
  for (const int p : parameters) append(views, slice(p));
  return views;
}

std::vector<View> Reducer::home(std::span<const int> parameters) const {
  if (aliased_) return slices(parameters);
  std::vector<View> views;
  for (const int p : parameters) append(views, tensor_[static_cast<std::size_t>(p)]);
  return views;
}

void Reducer::run(Name verb, Bytes read, Bytes written, int launches, std::span<const View> reads,
                  std::span<const View> writes, LayerWalk& walk) {
  const Kernel kernel = memory_bound(verb, step_.precision.gradient, read, written, launches);
  walk.ran_on_compute(builder_.one_kernel(verb, setup_.streams.compute, kernel, reads, writes));
}

void Reducer::zero_gradients(LayerWalk& walk) {
  if (!alive_) return;
  builder_.at(Phase::load);
  builder_.rule(rule_keep);
  const std::vector<View> all = gradients();
  const auto tensors = static_cast<std::int64_t>(step_.model.parameters.size());
  // A fused or foreach optimizer zeroes many tensors a launch.
  const std::int64_t launches = step_.optimizer == OptimizerKind::adamw_unfused
                                    ? tensors
                                    : ceil_div(tensors, zero_tensors_a_launch);
  run(verb_zero, 0, sum_of(all), static_cast<int>(launches), {}, all, walk);
}

void Reducer::before_piece(const Piece& piece, int micro_batch) {
  if (piece.gradients < 0) return;
  builder_.at(Phase::backward, -1, micro_batch);
  builder_.alloc(adds(micro_batch) ? piece.fresh : piece.gradients);
  if (adds(micro_batch)) return;
  uncopied_[static_cast<std::size_t>(&piece - pieces_.all.data())] = piece.parameters.size();
}

View Reducer::produced(const Piece& piece, int micro_batch) const {
  if (piece.gradients < 0) return {};
  return builder_.whole(adds(micro_batch) ? piece.fresh : piece.gradients);
}

void Reducer::after_piece(const Piece& piece, LayerWalk& walk, int micro_batch) {
  if (piece.gradients < 0) return;
  const int count = static_cast<int>(piece.parameters.size());
  const bool reduce = reduces(step_, micro_batch);
  builder_.at(Phase::backward, walk.unit(piece.layer), micro_batch);
  builder_.host_work(cost_hook, count);
  if (adds(micro_batch)) {
    // AccumulateGrad adds in place: read both, write the sum.
    const std::vector<View> sum = home(piece.parameters);
    std::vector<View> reads = sum;
    reads.push_back(builder_.whole(piece.fresh));
    run(verb_accumulate, 2 * piece.bytes, piece.bytes, count, reads, sum, walk);
    builder_.free(piece.fresh);
  }
  if (!reduce || delayed_) return;
  mark_unused(piece, walk);
  await_divisor();
  if (!step_.strategy.batched_grad_copy) copy_in(piece.parameters, walk);
  for (const int bucket : piece.launches) launch(bucket, walk, micro_batch);
  const bool last =
      !piece.launches.empty() && piece.launches.back() + 1 == static_cast<int>(buckets_.size());
  if (last && map_) setup_.used_map->reduce(walk, micro_batch);
}

void Reducer::await_divisor() {
  if (!divisor_known_) setup_.notice->await_count();
  divisor_known_ = true;
}

void Reducer::mark_unused(const Piece& piece, LayerWalk& walk) {
  if (piece.marked.empty()) return;
  builder_.rule(rule_mark);
  const std::vector<View> zeroed = slices(piece.marked);
  run(verb_zero_slices, 0, sum_of(zeroed), static_cast<int>(piece.marked.size()), {}, zeroed, walk);
}

// One kernel a parameter: gradient x 1/W into the bucket's slice. Where it is there already only
// the division is left, and with a hook, which divides for itself, nothing.
void Reducer::copy_in(std::span<const int> parameters, LayerWalk& walk) {
  const bool hook = setup_.hook != CommHook::none;
  const std::vector<View> to = slices(parameters);
  const Bytes bytes = sum_of(to);
  builder_.rule(hook || divides_buckets_ ? Name() : rule_average);
  if (!aliased_ || !hook) {
    run(aliased_ ? verb_divide : verb_copy_in, bytes, bytes, static_cast<int>(parameters.size()),
        home(parameters), to, walk);
  }
  if (views_ && !aliased_) release_copied(parameters);
}

// batched_grad_copy: one foreach copy and one division of the flat bucket.
void Reducer::copy_in_bucket(std::size_t b, LayerWalk& walk) {
  const Bucket& bucket = buckets_[b];
  builder_.rule(rule_batched);
  std::vector<int> used;
  for (const int p : bucket.tensors) {
    if (!is_unused(p)) used.push_back(p);
  }
  if (!aliased_ && !used.empty()) {
    const std::vector<View> to = slices(used);
    const Bytes bytes = sum_of(to);
    run(verb_copy_in, bytes, bytes,
        static_cast<int>(ceil_div(static_cast<std::int64_t>(used.size()), copy_tensors_a_launch)),
        home(used), to, walk);
  }
  if (setup_.hook == CommHook::none) divide_bucket(b, walk);
  if (views_ && !aliased_) release_copied(used);
}

void Reducer::divide_bucket(std::size_t b, LayerWalk& walk) {
  const View whole = builder_.whole(bucket_buffers_[b]);
  run(verb_divide, whole.bytes, whole.bytes, 1, ViewList(whole), ViewList(whole), walk);
}

// A gradient that has become a view of its bucket needs its own tensor no more.
void Reducer::release_copied(std::span<const int> parameters) {
  for (const int p : parameters) {
    const auto piece = static_cast<std::size_t>(piece_of_[static_cast<std::size_t>(p)]);
    if (--uncopied_[piece] == 0) builder_.free(pieces_.all[piece].gradients);
  }
}

void Reducer::launch(int bucket, LayerWalk& walk, int micro_batch) {
  const auto b = static_cast<std::size_t>(bucket);
  builder_.at(Phase::backward, builder_.unit("bucket" + std::to_string(bucket)), micro_batch);
  if (step_.strategy.batched_grad_copy) copy_in_bucket(b, walk);
  if (divides_buckets_) {
    builder_.rule(rule_divide);
    divide_bucket(b, walk);
  }
  builder_.rule(Name());
  reductions_[b] = reduction_->launch(bucket, bucket_buffers_[b], walk);
}

// Used map first, then every parameter is copied in, in definition order, then all buckets.
void Reducer::reduce_delayed(LayerWalk& walk, int micro_batch) {
  builder_.at(Phase::backward, -1, micro_batch);
  if (map_) setup_.used_map->reduce(walk, micro_batch);
  builder_.at(Phase::backward, -1, micro_batch);
  for (const Piece& piece : pieces_.all) mark_unused(piece, walk);
  await_divisor();
  std::vector<int> used;
  for (int p = 0; p < static_cast<int>(bucket_of_.size()); ++p) {
    if (!is_unused(p)) used.push_back(p);
  }
  builder_.rule(rule_delayed);
  if (!step_.strategy.batched_grad_copy) copy_in(used, walk);
  for (std::size_t b = 0; b < buckets_.size(); ++b) launch(static_cast<int>(b), walk, micro_batch);
}

void Reducer::finalize(LayerWalk& walk, int micro_batch) {
  if (delayed_) reduce_delayed(walk, micro_batch);
  if (!delayed_ && pieces_.launched < static_cast<int>(buckets_.size())) {
    // The callback that finalizes is queued with the last bucket.
    aliased_ = views_ && !step_.strategy.batched_grad_copy;
    return;
  }
  builder_.at(Phase::backward, -1, micro_batch);
  builder_.host_work(cost_finalize, static_cast<int>(buckets_.size()));
  bool map_read = !map_;
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    builder_.at(Phase::backward, builder_.unit("bucket" + std::to_string(b)), micro_batch);
    builder_.rule(rule_finalize);
    builder_.stream_wait(setup_.streams.compute, reductions_[b]);
    const std::vector<int>& tensors = buckets_[b].tensors;
    if (!map_read &&
        std::any_of(tensors.begin(), tensors.end(), [&](int p) { return is_unused(p); })) {
      setup_.used_map->read(walk);
      builder_.rule(rule_finalize);
      map_read = true;
    }
    if (!views_) copy_out(b, walk);
  }
  builder_.at(Phase::backward, -1, micro_batch);
  if (!map_read) setup_.used_map->wait();
  aliased_ = views_;
  late_alive_ = true;
}

void Reducer::copy_out(std::size_t b, LayerWalk& walk) {
  std::vector<int> parameters;
  std::vector<View> tensors;
  for (const int p : buckets_[b].tensors) {
    if (is_unused(p) && setup_.unused_by_all) continue;  // nobody's gradient: left as it is
    parameters.push_back(p);
    append(tensors, tensor_[static_cast<std::size_t>(p)]);
  }
  if (tensors.empty()) return;
  if (late_[b] >= 0 && !late_alive_) builder_.alloc(late_[b]);
  const Bytes bytes = sum_of(tensors);
  run(verb_copy_out, bytes, bytes, static_cast<int>(parameters.size()), slices(parameters), tensors,
      walk);
}

void Reducer::drop_gradients() {
  builder_.at(Phase::optimizer);
  if (!step_.strategy.zero_grad_set_to_none) {
    alive_ = true;
    return;
  }
  aliased_ = false;
  const bool late = std::exchange(late_alive_, false);
  for (std::size_t p = 0; p < pieces_.all.size(); ++p) {
    if (uncopied_[p] > 0) builder_.free(pieces_.all[p].gradients);  // not a view of its bucket
    uncopied_[p] = 0;
  }
  for (const BufferIndex buffer : late_) {
    if (buffer >= 0 && late) builder_.free(buffer);
  }
}

std::vector<View> Reducer::bucket_views() const {
  std::vector<View> views;
  for (const BufferIndex bucket : bucket_buffers_) views.push_back(builder_.whole(bucket));
  return views;
}

std::vector<View> Reducer::gradients() const {
  if (aliased_) return bucket_views();
  std::vector<View> views;
  for (const Piece& piece : pieces_.all) {
    if (piece.gradients >= 0) views.push_back(builder_.whole(piece.gradients));
  }
  for (const BufferIndex buffer : late_) {
    if (buffer >= 0 && late_alive_) views.push_back(builder_.whole(buffer));
  }
  return views;
}

std::int64_t Reducer::updated_elements() const {
  std::int64_t elements = 0;
  for (int p = 0; p < static_cast<int>(bucket_of_.size()); ++p) {
    if (is_unused(p) && setup_.unused_by_all) continue;
    elements += step_.model.parameters[static_cast<std::size_t>(p)].elements();
  }
  return elements;
}

}  // namespace stepcast::ddp
