#include "sim/strategies/fsdp1/reduce.hpp"

namespace stepcast::fsdp1 {
namespace {

const Name verb_concatenate("concatenate_gradients");
const Name verb_accumulate("accumulate");
const Name verb_cast("cast_to_reduce_dtype");
const Name verb_pre("pre_divide");
const Name verb_post("post_divide");
const Name verb_reduce_scatter("reduce_scatter");
const Name verb_all_reduce("all_reduce");
const Name verb_cast_back("cast_gradient");
const Name verb_add("add_gradient");
const Name rule_average("fsdp1.pre-and-post-divide");
const Name rule_finalize("fsdp1.final-callback");

}  // namespace

Reduce::Reduce(ScheduleBuilder& builder, const TrainingStep& step, const Streams& streams,
               LayerWalk& walk)
    : builder_(builder),
      step_(step),
      streams_(streams),
      walk_(walk),
      average_(average_of(step.mesh.world_size())),
      gradients_(builder, step, streams.compute) {}

void Reduce::concatenate(Unit& unit, int micro_batch) {
  builder_.at(Phase::backward, unit.name, micro_batch);
  const bool older = unit.has_flat_gradient;
  if (!older) builder_.alloc(unit.flat_gradient);
  const View flat = builder_.whole(unit.flat_gradient);
  ViewList reads = gradients_.of(unit.wrap.layers);
  Bytes fresh = 0;
  for (const View& view : std::span<const View>(reads)) fresh += view.bytes;
  if (older) reads.add(flat);
  walk_.run(streams_.compute,
            memory_bound(older ? verb_accumulate : verb_concatenate, step_.precision.gradient,
                         fresh + (older ? flat.bytes : 0), flat.bytes),
            reads, ViewList(flat));
  unit.has_flat_gradient = true;
  gradients_.free(unit.wrap.layers);
}

void Reduce::post_backward(Unit& unit, int micro_batch) {
  const Precision& p = step_.precision;
  const bool sharded = policy_of(step_.strategy.sharding).sharded && step_.mesh.shard > 1;
  const StreamIndex stream = streams_.post_backward;
  builder_.at(Phase::backward, unit.name, micro_batch);
  builder_.stream_wait(stream, walk_.last_compute());
  View input = builder_.whole(unit.flat_gradient);
  const auto drop = [&](BufferIndex buffer, StreamIndex user) {
    builder_.free_after_streams(buffer, std::span<const StreamIndex>(&user, 1));
  };
  if (unit.cast_gradient >= 0) {
    builder_.alloc(unit.cast_gradient);
    const View cast = builder_.whole(unit.cast_gradient);
    walk_.run(stream, memory_bound(verb_cast, p.reduce, input.bytes, cast.bytes), ViewList(input),
              ViewList(cast));
    drop(unit.flat_gradient, stream);
    input = cast;
  }
  builder_.rule(rule_average);
  if (average_.pre != 1) {
    walk_.run(stream, memory_bound(verb_pre, p.reduce, input.bytes, input.bytes), ViewList(input),
              ViewList(input));
  }
  const bool adds = unit.has_gradient_shard;
  View shard = input;
  StreamIndex tail = stream;
  OpIndex last = builder_.last();
  if (sharded) {
    builder_.alloc(unit.scattered);
    shard = builder_.whole(unit.scattered);
    last = builder_.collective(verb_reduce_scatter, CollectiveKind::reduce_scatter, streams_.shard,
                               stream, p.reduce, unit.flat.padded_elements, Reduction::sum,
                               ViewList(input), ViewList(shard));
    drop(unit.cast_gradient >= 0 ? unit.cast_gradient : unit.flat_gradient, stream);
  }
  if (streams_.replicate >= 0) {
    if (streams_.all_reduce != stream) builder_.stream_wait(streams_.all_reduce, last);
    tail = streams_.all_reduce;
    last = builder_.collective(verb_all_reduce, CollectiveKind::all_reduce, streams_.replicate,
                               tail, p.reduce, shard.bytes / bytes_per_element(p.reduce),
                               Reduction::sum, ViewList(shard), ViewList(shard));
  }
  if (average_.post != 1) {
    last = walk_.run(tail, memory_bound(verb_post, p.reduce, shard.bytes, shard.bytes),
                     ViewList(shard), ViewList(shard));
  }
  if (!adds) builder_.alloc(unit.gradient_shard);
  const View gradient = builder_.whole(unit.gradient_shard);
  // Cast and add where needed; otherwise the shard is handed out as it is (a copy of no bytes).
  const bool work = adds || p.reduce != p.parameter;
  ViewList reads(shard);
  if (adds) reads.add(gradient);
  last = walk_.run(
      tail,
      memory_bound(adds ? verb_add : verb_cast_back, p.parameter,
                   work ? shard.bytes + (adds ? gradient.bytes : 0) : 0, work ? gradient.bytes : 0),
      reads, ViewList(gradient));
  drop(shard.buffer, tail);
  unit.has_flat_gradient = false;
  unit.has_gradient_shard = true;
  tails_.push_back({last, 0});
}

void Reduce::finalize(int micro_batch) {
  builder_.at(Phase::backward, -1, micro_batch);
  builder_.rule(rule_finalize);
  if (!tails_.empty()) builder_.stream_wait(streams_.compute, tails_);
  tails_.clear();
}

void Reduce::drop_gradients(std::vector<Unit>& units) {
  builder_.at(Phase::optimizer);
  for (Unit& unit : units) {
    if (unit.has_gradient_shard) builder_.free(unit.gradient_shard);
    unit.has_gradient_shard = false;
  }
}

}  // namespace stepcast::fsdp1
