#include "sim/strategies/zero/stage3_gradients.hpp"

#include <algorithm>
#include <string>

#include "sim/strategies/common/layouts.hpp"
#include "sim/strategies/zero/partition.hpp"

namespace stepcast::zero {
namespace {

constexpr std::size_t most_reductions = 2;  // outstanding before the host blocks

const Name cost_hook("zero_grad_hook");
const Name verb_copy_in("copy_in");
const Name verb_interleave("interleave");
const Name verb_divide("divide");
const Name verb_reduce_scatter("reduce_scatter");
const Name verb_partition("to_partition");
const Name rule_flush("zero.flush-by-the-next-gradient");
const Name rule_reductions("zero3.two-reductions-outstanding");
const Name rule_end("zero3.end-of-backward-synchronizes");

}  // namespace

Stage3Gradients::Stage3Gradients(ScheduleBuilder& builder, const TrainingStep& step,
                                 LayerWalk& walk, const ModulePlan& plan, Streams streams,
                                 std::int64_t owned)
    : builder_(builder),
      step_(step),
      walk_(walk),
      plan_(plan),
      streams_(streams),
      partition_(builder.persistent("gradient_shards", BufferKind::gradient,
                                    step.precision.gradient,
                                    owned * bytes_per_element(step.precision.gradient))) {
  plan_modules(plan);
  std::vector<std::int64_t> numels;
  for (const Parameter& p : step.model.parameters) numels.push_back(p.elements());
  flushes_ = plan_flushes(numels, arrival_, step.strategy.reduce_bucket_elements);
  declare_buckets();
}

std::int64_t Stage3Gradients::numel(int parameter) const {
  return step_.model.parameters[static_cast<std::size_t>(parameter)].elements();
}

Bytes Stage3Gradients::bytes_of(int parameter) const {
  return numel(parameter) * bytes_per_element(step_.precision.gradient);
}

std::int64_t Stage3Gradients::padded_elements(const Flush& flush) const {
  const int ranks = step_.mesh.world_size();
  std::int64_t padded = 0;
  for (const int p : flush.parameters) padded += parameter_partition(numel(p), ranks) * ranks;
  return padded;
}

// Gradients come module by module, last module first; a module's are one tensor here. The layer's
// small parameters, which are no module's, come with the module that runs last in backward.
void Stage3Gradients::plan_modules(const ModulePlan& plan) {
  gradients_.resize(plan.modules.size(), -1);
  parameters_.resize(plan.modules.size());
  for (std::size_t m = plan.modules.size(); m-- > 0;) {
    const Module& module = plan.modules[m];
    std::vector<int>& mine = parameters_[m];
    mine = module.parameters;
    if (static_cast<int>(m) == plan.of_layer[static_cast<std::size_t>(module.layer)].front()) {
      const Layer& layer = step_.model.layers[static_cast<std::size_t>(module.layer)];
      for (int p = layer.first_parameter; p < layer.first_parameter + layer.parameter_count; ++p) {
        if (numel(p) <= step_.strategy.persistence_threshold) mine.push_back(p);
      }
    }
    Bytes bytes = 0;
    for (const int p : mine) {
      arrival_.push_back(p);
      bytes += bytes_of(p);
    }
    if (bytes > 0) {
      gradients_[m] = builder_.buffer("gradients." + std::to_string(m), BufferKind::gradient,
                                      step_.precision.gradient, bytes, streams_.compute);
      whole_layout(builder_, gradients_[m], one_after_another(step_.model, mine));
    }
  }
}

void Stage3Gradients::declare_buckets() {
  const Dtype dtype = step_.precision.gradient;
  const Bytes size = bytes_per_element(dtype);
  std::int64_t largest = step_.strategy.reduce_bucket_elements;
  std::int64_t padded = 0;
  for (const Flush& flush : flushes_) {
    largest = std::max(largest, flush.elements);
    padded = std::max(padded, padded_elements(flush));
  }
  bucket_ =
      builder_.buffer("ipg_bucket", BufferKind::bucket, dtype, largest * size, streams_.reduce);
  interleaved_ = builder_.buffer("interleaved", BufferKind::reduce_input, dtype, padded * size,
                                 streams_.reduce);
  scattered_ = builder_.buffer("scattered", BufferKind::reduce_output, dtype,
                               padded / step_.mesh.world_size() * size, streams_.reduce);
}

OpIndex Stage3Gradients::run(Name verb, Bytes read, Bytes written, std::span<const View> reads,
                             std::span<const View> writes) {
  return walk_.run(streams_.reduce, memory_bound(verb, step_.precision.gradient, read, written),
                   reads, writes);
}

void Stage3Gradients::begin_backward(int micro_batch) {
  next_flush_ = 0;
  filled_ = 0;
  partition_filled_ = 0;
  reductions_.clear();
  builder_.at(Phase::backward, -1, micro_batch);
  builder_.alloc(bucket_);
}

ViewList Stage3Gradients::produced_by(int module) {
  const BufferIndex buffer = gradients_[static_cast<std::size_t>(module)];
  if (buffer < 0) return {};
  builder_.alloc(buffer);
  return ViewList(builder_.whole(buffer));
}

void Stage3Gradients::arrive(int module, int micro_batch) {
  const auto m = static_cast<std::size_t>(module);
  const BufferIndex tensor = gradients_[m];
  if (tensor < 0) return;
  builder_.at(Phase::backward, walk_.unit(plan_.modules[m].layer), micro_batch);
  builder_.host_work(cost_hook, static_cast<int>(parameters_[m].size()));
  if (streams_.reduce != streams_.compute) {
    builder_.stream_wait(streams_.reduce, walk_.last_compute());
  }
  Bytes offset = 0;
  for (const int p : parameters_[m]) {
    if (next_flush_ < flushes_.size() && flushes_[next_flush_].triggered_by == p) flush();
    const Bytes bytes = bytes_of(p);
    run(verb_copy_in, bytes, bytes, ViewList(View{tensor, offset, bytes}),
        ViewList(View{bucket_, filled_, bytes}));
    filled_ += bytes;
    offset += bytes;
  }
  builder_.free_after_streams(tensor, std::span<const StreamIndex>(&streams_.reduce, 1));
}

void Stage3Gradients::flush() {
  const Flush& flush = flushes_[next_flush_++];
  const Dtype dtype = step_.precision.gradient;
  const std::int64_t elements = padded_elements(flush);
  const Bytes padded = elements * bytes_per_element(dtype);
  const Bytes mine = padded / step_.mesh.world_size();
  builder_.rule(rule_flush);
  builder_.alloc(interleaved_);
  const View flat{interleaved_, 0, padded};
  run(verb_interleave, filled_, padded, ViewList(View{bucket_, 0, filled_}), ViewList(flat));
  run(verb_divide, padded, padded, ViewList(flat), ViewList(flat));
  builder_.alloc(scattered_);
  const View part{scattered_, 0, mine};
  const OpIndex scattered = builder_.collective(verb_reduce_scatter, CollectiveKind::reduce_scatter,
                                                streams_.world, streams_.reduce, dtype, elements,
                                                Reduction::sum, ViewList(flat), ViewList(part));
  if (streams_.reduce == streams_.compute) walk_.ran_on_compute(scattered);
  const View slot{partition_, partition_filled_, mine};
  const bool add = builder_.op(builder_.last()).micro_batch > 0;
  ViewList reads(part);
  if (add) reads.add(slot);
  const OpIndex done = run(verb_partition, (add ? 2 : 1) * mine, mine, reads, ViewList(slot));
  builder_.free(scattered_);
  builder_.free(interleaved_);
  partition_filled_ += mine;
  filled_ = 0;
  reductions_.push_back(done);
  if (reductions_.size() > most_reductions) {
    const OpRef oldest{reductions_.front(), 0};
    reductions_.pop_front();
    builder_.rule(rule_reductions);
    builder_.host_wait(std::span<const OpRef>(&oldest, 1));
  }
  builder_.rule(Name());
}

void Stage3Gradients::end_backward(int micro_batch) {
  builder_.at(Phase::backward, -1, micro_batch);
  if (filled_ > 0) flush();
  builder_.rule(rule_end);
  builder_.host_wait_stream(streams_.reduce);
  builder_.rule(Name());
  if (streams_.reduce != streams_.compute) {
    builder_.stream_wait(streams_.compute,
                         reductions_.empty() ? walk_.last_compute() : reductions_.back());
  }
  builder_.free(bucket_);
}

}  // namespace stepcast::zero
