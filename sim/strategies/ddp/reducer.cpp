#include "sim/strategies/ddp/reducer.hpp"

#include <algorithm>
#include <utility>

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
      tensors_(builder, step, walk, std::move(buckets), setup_.tensors),
      divides_buckets_(step.strategy.bucket_rule == BucketRule::pytorch_1_4),
      reductions_(tensors_.buckets().size(), -1) {
  const HookPlace place{builder, step, setup_.streams, setup_.tensors.label};
  early_ = make_reduction(hook_of_iteration(setup_.hook, false), place, tensors_.buckets());
  if (setup_.hook == CommHook::power_sgd && setup_.steady) {
    steady_ = make_reduction(setup_.hook, place, tensors_.buckets());
  }
  begin_iteration(false, true);
}

void Reducer::begin_iteration(bool delayed, bool steady) {
  delayed_ = delayed;
  map_ = setup_.used_map != nullptr && (delayed || !step_.strategy.static_graph);
  reduction_ = steady && steady_ ? steady_.get() : early_.get();
}

void Reducer::run(Name verb, Bytes read, Bytes written, int launches, std::span<const View> reads,
                  std::span<const View> writes, LayerWalk& walk) {
  const Kernel kernel = memory_bound(verb, step_.precision.gradient, read, written, launches);
  walk.ran_on_compute(builder_.one_kernel(verb, setup_.streams.compute, kernel, reads, writes));
}

void Reducer::zero_gradients(LayerWalk& walk) {
  if (!tensors_.kept()) return;
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
  tensors_.begin(piece, micro_batch);
}

void Reducer::after_piece(const Piece& piece, LayerWalk& walk, int micro_batch) {
  if (piece.gradients < 0) return;
  builder_.at(Phase::backward, walk.unit(piece.layer), micro_batch);
  builder_.host_work(cost_hook, static_cast<int>(piece.parameters.size()));
  if (tensors_.adds(micro_batch)) accumulate(piece, walk);
  if (!reduces(step_, micro_batch) || delayed_) return;
  mark_unused(piece, walk);
  await_divisor();
  if (!step_.strategy.batched_grad_copy) copy_in(piece.parameters, walk);
  for (const int bucket : piece.launches) launch(bucket, walk, micro_batch);
  const bool last =
      !piece.launches.empty() && piece.launches.back() + 1 == static_cast<int>(buckets().size());
  if (last && map_) setup_.used_map->reduce(walk, micro_batch);
}

// AccumulateGrad adds in place: read both, write the sum.
void Reducer::accumulate(const Piece& piece, LayerWalk& walk) {
  const std::vector<View> sum = tensors_.home(piece.parameters);
  std::vector<View> reads = sum;
  reads.push_back(builder_.whole(piece.fresh));
  run(verb_accumulate, 2 * piece.bytes, piece.bytes, static_cast<int>(piece.parameters.size()),
      reads, sum, walk);
  builder_.free(piece.fresh);
}

void Reducer::await_divisor() {
  if (!divisor_known_) setup_.notice->await_count();
  divisor_known_ = true;
}

void Reducer::mark_unused(const Piece& piece, LayerWalk& walk) {
  if (piece.marked.empty()) return;
  builder_.rule(rule_mark);
  const std::vector<View> zeroed = tensors_.slices(piece.marked);
  run(verb_zero_slices, 0, sum_of(zeroed), static_cast<int>(piece.marked.size()), {}, zeroed, walk);
}

// One kernel a parameter: gradient x 1/W into the bucket's slice. Where it is there already only
// the division is left, and with a hook, which divides for itself, nothing.
void Reducer::copy_in(std::span<const int> parameters, LayerWalk& walk) {
  const bool hook = setup_.hook != CommHook::none;
  const bool there = tensors_.in_buckets();
  const std::vector<View> to = tensors_.slices(parameters);
  const Bytes bytes = sum_of(to);
  builder_.rule(hook || divides_buckets_ ? Name() : rule_average);
  if (!there || !hook) {
    run(there ? verb_divide : verb_copy_in, bytes, bytes, static_cast<int>(parameters.size()),
        tensors_.home(parameters), to, walk);
  }
  tensors_.copied_in(parameters);
}

// batched_grad_copy: one foreach copy and one division of the flat bucket.
void Reducer::copy_in_bucket(std::size_t b, LayerWalk& walk) {
  builder_.rule(rule_batched);
  const std::vector<int> used = tensors_.used(buckets()[b].tensors);
  if (!tensors_.in_buckets() && !used.empty()) {
    const std::vector<View> to = tensors_.slices(used);
    const Bytes bytes = sum_of(to);
    run(verb_copy_in, bytes, bytes,
        static_cast<int>(ceil_div(static_cast<std::int64_t>(used.size()), copy_tensors_a_launch)),
        tensors_.home(used), to, walk);
  }
  if (setup_.hook == CommHook::none) divide_bucket(b, walk);
  tensors_.copied_in(used);
}

void Reducer::divide_bucket(std::size_t b, LayerWalk& walk) {
  const View whole = builder_.whole(tensors_.bucket_buffer(b));
  run(verb_divide, whole.bytes, whole.bytes, 1, ViewList(whole), ViewList(whole), walk);
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
  reductions_[b] = reduction_->launch(bucket, tensors_.bucket_buffer(b), walk);
}

// Used map first, then every parameter is copied in, in definition order, then all buckets.
void Reducer::reduce_delayed(LayerWalk& walk, int micro_batch) {
  builder_.at(Phase::backward, -1, micro_batch);
  if (map_) setup_.used_map->reduce(walk, micro_batch);
  builder_.at(Phase::backward, -1, micro_batch);
  for (const Piece& piece : tensors_.pieces().all) mark_unused(piece, walk);
  await_divisor();
  const std::vector<int> used = tensors_.used();
  builder_.rule(rule_delayed);
  if (!step_.strategy.batched_grad_copy) copy_in(used, walk);
  for (std::size_t b = 0; b < buckets().size(); ++b) launch(static_cast<int>(b), walk, micro_batch);
}

void Reducer::finalize(LayerWalk& walk, int micro_batch) {
  if (delayed_) reduce_delayed(walk, micro_batch);
  if (!delayed_ && tensors_.pieces().launched < static_cast<int>(buckets().size())) {
    tensors_.never_reduced();  // the callback that finalizes is queued with the last bucket
    return;
  }
  builder_.at(Phase::backward, -1, micro_batch);
  builder_.host_work(cost_finalize, static_cast<int>(buckets().size()));
  bool map_read = !map_;
  for (std::size_t b = 0; b < buckets().size(); ++b) {
    builder_.at(Phase::backward, builder_.unit("bucket" + std::to_string(b)), micro_batch);
    builder_.rule(rule_finalize);
    builder_.stream_wait(setup_.streams.compute, reductions_[b]);
    const std::vector<int>& tensors = buckets()[b].tensors;
    if (!map_read &&
        std::any_of(tensors.begin(), tensors.end(), [&](int p) { return tensors_.is_unused(p); })) {
      setup_.used_map->read(walk);
      builder_.rule(rule_finalize);
      map_read = true;
    }
    copy_out(b, walk);
  }
  builder_.at(Phase::backward, -1, micro_batch);
  if (!map_read) setup_.used_map->wait();
  tensors_.reduced();
}

void Reducer::copy_out(std::size_t b, LayerWalk& walk) {
  const GradientTensors::Target to = tensors_.copy_out_of(b);
  if (to.tensors.empty()) return;
  const Bytes bytes = sum_of(to.tensors);
  run(verb_copy_out, bytes, bytes, static_cast<int>(to.parameters.size()),
      tensors_.slices(to.parameters), to.tensors, walk);
}

void Reducer::drop_gradients() {
  builder_.at(Phase::optimizer);
  tensors_.drop();
}

}  // namespace stepcast::ddp
