#include "sim/strategies/fsdp2/reduce.hpp"

#include "sim/strategies/hsdp/replicate.hpp"

namespace stepcast::fsdp2 {
namespace {

const Name verb_copy_in("reduce_copy_in");
const Name verb_reduce_scatter("reduce_scatter");
const Name verb_local("reduce_local_copy");
const Name verb_accumulate("accumulate");
const Name verb_cast("cast_gradient");
const Name verb_add("add_gradient");
const Name rule_one_alive("fsdp2.one-reduce-scatter-outstanding");
const Name rule_finalize("fsdp2.final-callback");

}  // namespace

Reduce::Reduce(ScheduleBuilder& builder, const TrainingStep& step, const Streams& streams,
               LayerWalk& walk)
    : builder_(builder),
      step_(step),
      streams_(streams),
      walk_(walk),
      gradients_(builder, step, streams.compute) {}

Bytes Reduce::gradient_bytes(const Unit& unit) const {
  return unit.size.elements * bytes_per_element(step_.precision.gradient);
}

void Reduce::post_backward(Unit& unit, int micro_batch, bool sync, bool replicate) {
  builder_.at(Phase::backward, unit.name, micro_batch);
  if (!sync) {
    keep_unsharded(unit);
    return;
  }
  const bool first = !unit.has_gradient_shard;
  const bool partial_sums =
      step_.strategy.accumulation_sync == AccumulationSync::reduce_scatter_every;
  const bool cast = unit.reduce_output >= 0;
  // Where this micro-batch's shard goes, and where the running sum of shards is kept.
  const BufferIndex sum = cast ? unit.reduce_output : unit.gradient_shard;
  if (first) {
    if (cast && !partial_sums) builder_.alloc(unit.gradient_shard);
    builder_.alloc(sum);
  }
  const BufferIndex target = first || (cast && !partial_sums) ? sum : unit.fresh_shard;
  if (!first) builder_.alloc(target);
  scatter(unit, target);

  StreamIndex tail = streams_.reduce_scatter;
  const Bytes part =
      unit.size.shard_elements(shard_ranks(step_)) * bytes_per_element(step_.precision.reduce);
  if (partial_sums && !first) {
    const Kernel add = memory_bound(verb_add, step_.precision.reduce, 2 * part, part);
    const View sum_view = builder_.whole(sum);
    unit.reduced =
        walk_.run(tail, add, ViewList(builder_.whole(target)).add(sum_view), ViewList(sum_view));
    builder_.free(target);
  }
  if (streams_.replicate >= 0 && replicate) {
    const BufferIndex reduced = partial_sums ? sum : target;
    unit.reduced = hsdp::replicate(builder_, step_, streams_, unit, unit.reduced, reduced);
    tail = streams_.all_reduce;
  }
  const bool complete = !partial_sums || replicate;
  if (cast && complete) {
    if (partial_sums) builder_.alloc(unit.gradient_shard);
    hand_out(unit, partial_sums ? sum : target, tail);
  } else if (!cast && !partial_sums && !first) {
    const Kernel add = memory_bound(verb_add, step_.precision.reduce, 2 * part, part);
    const View shard = builder_.whole(unit.gradient_shard);
    unit.reduced =
        walk_.run(tail, add, ViewList(builder_.whole(target)).add(shard), ViewList(shard));
    builder_.free_after(target, {unit.reduced, 0});
  }
  unit.has_gradient_shard = true;
}

// set_requires_gradient_sync(False): gradients stay unsharded, in the reduce dtype from now on.
void Reduce::keep_unsharded(Unit& unit) {
  const Bytes fresh = gradient_bytes(unit);
  const Bytes kept = unit.size.elements * bytes_per_element(step_.precision.reduce);
  if (!unit.has_accumulated) builder_.alloc(unit.accumulated);
  const View sum = builder_.whole(unit.accumulated);
  ViewList reads;
  reads.add(gradients_.of(unit.wrap.layers));
  if (unit.has_accumulated) reads.add(sum);
  const Kernel kernel = memory_bound(verb_accumulate, step_.precision.reduce,
                                     fresh + (unit.has_accumulated ? kept : 0), kept,
                                     static_cast<int>(unit.wrap.parameters.size()));
  walk_.run(streams_.compute, kernel, reads, ViewList(sum));
  unit.has_accumulated = true;
  gradients_.free(unit.wrap.layers);
}

void Reduce::scatter(Unit& unit, BufferIndex target) {
  if (unit.has_accumulated) keep_unsharded(unit);  // adds the last micro-batch's
  const Precision& p = step_.precision;
  if (previous_input_ >= 0) {
    builder_.rule(rule_one_alive);
    builder_.stream_wait(streams_.compute, previous_reduce_);
    builder_.free(previous_input_);
    builder_.rule({});
  }
  builder_.alloc(unit.reduce_input);
  const Bytes padded = unit.size.padded_elements * bytes_per_element(p.reduce);
  const View input = builder_.whole(unit.reduce_input);
  ViewList reads;
  Bytes read = 0;
  if (unit.has_accumulated) {
    reads.add(builder_.whole(unit.accumulated));
    read = unit.size.elements * bytes_per_element(p.reduce);
  } else {
    reads.add(gradients_.of(unit.wrap.layers));
    read = gradient_bytes(unit);
  }
  const OpIndex copied = walk_.run(
      streams_.compute, memory_bound(verb_copy_in, p.reduce, read, padded), reads, ViewList(input));
  if (unit.has_accumulated) {
    builder_.free(unit.accumulated);
    unit.has_accumulated = false;
  } else {
    gradients_.free(unit.wrap.layers);
  }
  builder_.stream_wait(streams_.reduce_scatter, copied);
  const View output = builder_.whole(target);
  if (shard_ranks(step_) == 1) {  // a group of one copies
    unit.reduced = builder_.copy(verb_local, CopyKind::device_to_device, streams_.reduce_scatter,
                                 output.bytes, ViewList(input), ViewList(output));
  } else {
    unit.reduced =
        builder_.collective(verb_reduce_scatter, CollectiveKind::reduce_scatter, streams_.reduce,
                            streams_.reduce_scatter, p.reduce, unit.size.padded_elements,
                            Reduction::avg, ViewList(input), ViewList(output));
  }
  previous_input_ = unit.reduce_input;
  previous_reduce_ = unit.reduced;
}

// The reduced shard is cast to the parameter's dtype (and added to an earlier micro-batch's).
void Reduce::hand_out(Unit& unit, BufferIndex scattered, StreamIndex stream) {
  const bool add =
      unit.has_gradient_shard && step_.strategy.accumulation_sync == AccumulationSync::every;
  const View from = builder_.whole(scattered);
  const View to = builder_.whole(unit.gradient_shard);
  const Name verb = add ? verb_add : verb_cast;
  const Kernel kernel =
      memory_bound(verb, step_.precision.parameter, from.bytes + (add ? to.bytes : 0), to.bytes);
  ViewList reads(from);
  if (add) reads.add(to);
  unit.reduced = walk_.run(stream, kernel, reads, ViewList(to));
  if (streams_.replicate >= 0) {
    held_to_the_end_.push_back(
        scattered);  // PyTorch keeps all-reduce inputs to the end of backward
  } else {
    builder_.free(scattered);
  }
}

void Reduce::finalize(std::vector<Unit>& units, int micro_batch) {
  builder_.at(Phase::backward, -1, micro_batch);
  builder_.rule(rule_finalize);
  std::vector<OpRef> refs;
  for (Unit& unit : units) {
    if (unit.reduced >= 0) refs.push_back({unit.reduced, 0});
    unit.reduced = -1;
  }
  if (!refs.empty()) builder_.stream_wait(streams_.compute, refs);
  if (previous_input_ >= 0) builder_.free(previous_input_);
  previous_input_ = -1;
  for (const BufferIndex buffer : held_to_the_end_) builder_.free(buffer);
  held_to_the_end_.clear();
}

void Reduce::drop_gradients(std::vector<Unit>& units) {
  builder_.at(Phase::optimizer);
  for (Unit& unit : units) {
    if (unit.has_gradient_shard) builder_.free(unit.gradient_shard);
    unit.has_gradient_shard = false;
  }
}

}  // namespace stepcast::fsdp2
