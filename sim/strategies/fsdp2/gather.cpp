#include "sim/strategies/fsdp2/gather.hpp"

#include "sim/strategies/common/clip.hpp"
#include "sim/strategies/common/fp8_scales.hpp"
#include "sim/strategies/common/view_list.hpp"

namespace stepcast::fsdp2 {
namespace {

const Name verb_copy_in("copy_in");
const Name verb_all_gather("all_gather");
const Name verb_copy_out("copy_out");
const Name rule_optimizer("fsdp2.gather-after-optimizer");
const Name rule_two_alive("fsdp2.two-gathers-alive");
const Name verb_slice("keep_slice");
const Name rule_unshard("fsdp2.unshard");
const Name rule_scales("fsdp2.fp8-scale-a-weight");
const Name verb_largest("fp8_largest");
const Name verb_scales("fp8_scales");
const Name rule_slice("fsdp2.reshard-to-a-smaller-group");

}  // namespace

void Gather::streams_wait_for_compute(Phase phase, int micro_batch) {
  builder_.at(phase, -1, micro_batch);
  builder_.rule(rule_optimizer);
  builder_.stream_wait(streams_.copy_in, walk_.last_compute());
  builder_.stream_wait(streams_.all_gather, walk_.last_compute());
}

void Gather::unshard(Unit& unit, Phase phase, int micro_batch) {
  if (unit.is_unsharded || unit.gather_op >= 0) return;
  if (phase == Phase::backward && !unit.unshard_in_backward) return;
  const Precision& p = step_.precision;
  const int ranks = shard_ranks(step_);
  const std::int64_t part = unit.size.shard_elements(ranks);
  const Bytes stored = part * bytes_per_element(p.parameter);
  const Bytes payload = part * bytes_per_element(unit.gather);
  builder_.at(phase, unit.name, micro_batch);
  if (unit.sliced >= 0) {
    unshard_slice(unit);
    return;
  }
  builder_.rule(rule_unshard);
  const View shard = builder_.whole(unit.shard);
  const View slot{unit.gathered, 0, payload};  // this rank's; every rank has its own offset

  // One foreach cast + copy of all shards into a flat tensor, one foreach copy into the slot.
  if (unit.cast_shard >= 0) builder_.alloc(unit.cast_shard);
  builder_.alloc(unit.gathered);
  unit.flat = unit.gathered;
  const bool cast = unit.cast_shard >= 0;
  const Kernel copy = memory_bound(verb_copy_in, unit.gather, cast ? stored + payload : payload,
                                   cast ? 2 * payload : payload, cast ? 2 : 1);
  if (unit.gather == Dtype::int8) scales_before_cast(unit, shard);
  ViewList writes(slot);
  if (cast) writes.add(builder_.whole(unit.cast_shard));
  const OpIndex copied =
      builder_.one_kernel(verb_copy_in, streams_.copy_in, copy, ViewList(shard), writes);
  if (cast) builder_.free(unit.cast_shard);
  builder_.stream_wait(streams_.all_gather, copied);
  if (ranks == 1) {  // a group of one: the slot is the whole output
    unit.gather_op = copied;
    return;
  }
  unit.gather_op =
      builder_.collective(verb_all_gather, CollectiveKind::all_gather, streams_.shard,
                          streams_.all_gather, unit.gather, unit.size.padded_elements,
                          Reduction::none, ViewList(slot), ViewList(builder_.whole(unit.gathered)));
}

// fp8 all-gather: the scale of each weight is that of the whole weight, so its largest value is
// found in the shards and all-reduced, weight by weight, unless the scales of all weights were
// worked out at once after the optimizer (common/fp8_scales.hpp).
void Gather::scales_before_cast(const Unit& unit, const View& shard) {
  if (step_.strategy.fp8_precompute_scale) return;
  builder_.rule(rule_scales);
  const int weights = fp8_weights(step_.model, unit.wrap);
  const BufferIndex scales = step_buffer(builder_, verb_scales, BufferKind::other, Dtype::fp32,
                                         4 * fp8_weights(step_.model), streams_.copy_in);
  builder_.alloc(scales);
  const ViewList largest(View{scales, 0, 4 * weights});
  builder_.one_kernel(
      verb_largest, streams_.copy_in,
      memory_bound(verb_largest, step_.precision.parameter, shard.bytes, 4 * weights, 2 * weights),
      ViewList(shard), largest);
  if (shard_ranks(step_) > 1) {
    for (int i = 0; i < weights; ++i) {
      const ViewList one(View{scales, 4 * i, 4});
      builder_.collective(verb_scales, CollectiveKind::all_reduce, streams_.shard, streams_.copy_in,
                          Dtype::fp32, 1, Reduction::max, one, one);
    }
  }
  builder_.free(scales);
  builder_.rule(rule_unshard);
}

// From the slices within a group: they are in the gather dtype already.
void Gather::unshard_slice(Unit& unit) {
  builder_.rule(rule_slice);
  builder_.stream_wait(streams_.copy_in, unit.sliced);
  builder_.stream_wait(streams_.all_gather, unit.sliced);
  builder_.alloc(unit.regathered);
  unit.flat = unit.regathered;
  const View slice = builder_.whole(unit.slice);
  const View slot{unit.regathered, 0, slice.bytes};
  const Kernel copy = memory_bound(verb_copy_in, unit.gather, slice.bytes, slice.bytes);
  const OpIndex copied =
      builder_.one_kernel(verb_copy_in, streams_.copy_in, copy, ViewList(slice), ViewList(slot));
  builder_.stream_wait(streams_.all_gather, copied);
  unit.gather_op = builder_.collective(verb_all_gather, CollectiveKind::all_gather,
                                       streams_.regather, streams_.all_gather, unit.gather,
                                       unit.size.padded_elements, Reduction::none, ViewList(slot),
                                       ViewList(builder_.whole(unit.regathered)));
}

void Gather::copy_out(Unit& unit, Phase phase, int micro_batch) {
  const Bytes bytes = unit.size.padded_elements * bytes_per_element(unit.gather);
  builder_.at(phase, unit.name, micro_batch);
  builder_.stream_wait(streams_.compute, unit.gather_op);
  builder_.alloc(unit.unsharded);
  const Kernel copy = memory_bound(verb_copy_out, unit.gather, bytes, bytes);
  last_copy_out_ = builder_.one_kernel(verb_copy_out, streams_.compute, copy,
                                       ViewList(builder_.whole(unit.flat)),
                                       ViewList(builder_.whole(unit.unsharded)));
  walk_.ran_on_compute(last_copy_out_);
  unit.is_unsharded = true;
  if (unit.sliced >= 0) builder_.free(unit.slice);
  unit.sliced = -1;
  unit.gather_op = -1;
}

void Gather::free_after_copy_out(BufferIndex gathered, OpIndex copy_out) {
  builder_.rule(rule_two_alive);
  builder_.stream_wait(streams_.copy_in, copy_out);
  builder_.stream_wait(streams_.all_gather, copy_out);
  builder_.free(gathered);
}

void Gather::wait_forward(Unit& unit, int micro_batch) {
  if (unit.gather_op < 0) return;
  builder_.at(Phase::forward, unit.name, micro_batch);
  release_last();
  copy_out(unit, Phase::forward, micro_batch);
  held_ = unit.flat;
  held_copy_out_ = last_copy_out_;
}

void Gather::release_last() {
  if (held_ < 0) return;
  free_after_copy_out(held_, held_copy_out_);
  held_ = -1;
}

void Gather::wait_backward(Unit& unit, int micro_batch) {
  if (unit.gather_op < 0) return;
  copy_out(unit, Phase::backward, micro_batch);
  free_after_copy_out(unit.flat, last_copy_out_);
}

void Gather::reshard_after_forward(Unit& unit) {
  if (unit.slice >= 0) {
    builder_.rule(rule_slice);
    builder_.alloc(unit.slice);
    const View slice = builder_.whole(unit.slice);
    const Kernel clone = memory_bound(verb_slice, unit.gather, slice.bytes, slice.bytes,
                                      static_cast<int>(unit.wrap.parameters.size()));
    unit.sliced = walk_.run(streams_.compute, clone, ViewList(View{unit.unsharded, 0, slice.bytes}),
                            ViewList(slice));
    builder_.rule(Name());
  }
  reshard(unit);
}

void Gather::reshard(Unit& unit) {
  if (!unit.is_unsharded) return;
  builder_.free(unit.unsharded);
  unit.is_unsharded = false;
}

}  // namespace stepcast::fsdp2
