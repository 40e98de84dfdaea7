#pragma once
// One FSDP1 unit (one FullyShardedDataParallel call) and the streams all units share.

#include <vector>

#include "sim/schedule/builder.hpp"
#include "sim/strategies/fsdp1/flat_parameter.hpp"
#include "sim/strategies/strategy.hpp"

namespace stepcast::fsdp1 {

struct Streams {
  StreamIndex compute = 0;
  StreamIndex unshard = 0;        // all-gathers
  StreamIndex pre_unshard = 0;    // casts of the shard
  StreamIndex post_backward = 0;  // reduce-scatters
  StreamIndex all_reduce = 0;     // HYBRID only
  CommIndex shard = 0;
  CommIndex replicate = -1;  // HYBRID and NO_SHARD
};

// What the sharding strategies differ in (docs/sources.md 1.3).
struct Policy {
  bool sharded = true;                // false: NO_SHARD keeps everything and all-reduces
  bool reshard_after_forward = true;  // FULL_SHARD, HYBRID_SHARD; the root never
};
Policy policy_of(ShardingStrategy strategy);

struct Unit {
  WrapUnit wrap;
  UnitIndex name = -1;
  FlatParameter flat;

  BufferIndex shard = -1;          // persistent
  BufferIndex state = -1;          // persistent
  BufferIndex low_precision = -1;  // the shard in the gather dtype, -1 where no cast is needed
  BufferIndex unsharded = -1;      // the padded flat parameter; compute uses views of it
  BufferIndex flat_gradient = -1;  // concatenated, gradient dtype
  BufferIndex cast_gradient = -1;  // in the reduce dtype, -1 where no cast is needed
  BufferIndex scattered = -1;      // reduce-scatter output, reduce dtype
  BufferIndex gradient_shard = -1;

  bool is_unsharded = false;
  bool prefetched = false;
  bool needs_pre_backward = false;  // from its post-forward to its pre-backward
  OpIndex gather_op = -1;
  bool has_flat_gradient = false;  // unsharded gradients of earlier micro-batches (no_sync)
  bool has_gradient_shard = false;
};

std::vector<Unit> declare_units(ScheduleBuilder& builder, const TrainingStep& step,
                                const Streams& streams);

}  // namespace stepcast::fsdp1
