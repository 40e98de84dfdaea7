#include "sim/strategies/fsdp1/gather.hpp"

#include "sim/strategies/common/view_list.hpp"

namespace stepcast::fsdp1 {
namespace {

const Name verb_cast("cast_shard");
const Name verb_all_gather("all_gather");
const Name rule_optimizer("fsdp1.gather-after-optimizer");
const Name rule_tail("fsdp1.compute-waits-unshard-tail");
const Name rule_record("fsdp1.record-stream");

}  // namespace

void Gather::streams_wait_for_compute(int micro_batch) {
  builder_.at(Phase::forward, -1, micro_batch);
  builder_.rule(rule_optimizer);
  builder_.stream_wait(streams_.unshard, walk_.last_compute());
  builder_.stream_wait(streams_.pre_unshard, walk_.last_compute());
}

void Gather::unshard(Unit& unit, Phase phase, int micro_batch) {
  builder_.at(phase, unit.name, micro_batch);
  const bool in_place = unit.unsharded == unit.shard;  // NO_SHARD without mixed precision
  const bool needed = !unit.is_unsharded && !in_place;
  const Precision& p = step_.precision;
  const bool sharded = policy_of(step_.strategy.sharding).sharded && step_.mesh.shard > 1;
  View payload = builder_.whole(unit.shard);
  if (needed && unit.low_precision >= 0) {
    builder_.alloc(unit.low_precision);
    const View cast = builder_.whole(unit.low_precision);
    const Kernel kernel = memory_bound(verb_cast, p.gather, payload.bytes, cast.bytes);
    const OpIndex done = builder_.one_kernel(verb_cast, streams_.pre_unshard, kernel,
                                             ViewList(payload), ViewList(cast));
    builder_.stream_wait(streams_.unshard, done);
    payload = cast;
  }
  limiter_.before_gather();
  if (!needed) return;
  builder_.alloc(unit.unsharded);
  const View flat = builder_.whole(unit.unsharded);
  if (sharded) {
    unshard_tail_ = builder_.collective(verb_all_gather, CollectiveKind::all_gather, streams_.shard,
                                        streams_.unshard, p.gather, unit.flat.padded_elements,
                                        Reduction::none, ViewList(payload), ViewList(flat));
  } else {
    unshard_tail_ = builder_.copy(verb_all_gather, CopyKind::device_to_device, streams_.unshard,
                                  flat.bytes, ViewList(payload), ViewList(flat));
  }
  if (unit.low_precision >= 0) {
    builder_.free_after_streams(unit.low_precision,
                                std::span<const StreamIndex>(&streams_.unshard, 1));
  }
  unit.is_unsharded = true;
  unit.gather_op = unshard_tail_;
}

void Gather::use(const Unit& unit, Phase phase, int micro_batch) {
  if (unshard_tail_ < 0) return;
  builder_.at(phase, unit.name, micro_batch);
  builder_.rule(rule_tail);
  builder_.stream_wait(streams_.compute, unshard_tail_);
}

void Gather::reshard(Unit& unit) {
  drop_copy(unit);
  limiter_.freed_after(walk_.last_compute());
}

void Gather::drop_copy(Unit& unit) {
  if (!unit.is_unsharded) return;
  builder_.rule(rule_record);
  builder_.free_after_streams(unit.unsharded, std::span<const StreamIndex>(&streams_.compute, 1));
  unit.is_unsharded = false;
}

void Gather::end_step() {
  limiter_.end_step();
  unshard_tail_ = -1;
}

}  // namespace stepcast::fsdp1
