#pragma once
// One FSDP2 parameter group (one fully_shard call) and the streams all groups share.

#include <vector>

#include "sim/schedule/builder.hpp"
#include "sim/strategies/fsdp2/sharding.hpp"
#include "sim/strategies/strategy.hpp"

namespace stepcast::fsdp2 {

// PyTorch's FSDPCommContext: the streams, one communicator for gathers and reduce-scatters (they
// never overlap each other: R2), one for HSDP's all-reduce.
struct Streams {
  StreamIndex compute = 0;
  StreamIndex copy_in = 0;  // "all_gather_copy_in"
  StreamIndex all_gather = 0;
  StreamIndex reduce_scatter = 0;
  StreamIndex all_reduce = 0;
  CommIndex shard = 0;
  CommIndex reduce = 0;      // = shard, or its own with set_separate_reduce_scatter_group
  CommIndex replicate = -1;  // HSDP only
  CommIndex regather = -1;   // reshard_after_forward = n: the groups of n that backward gathers in
};

Dtype gather_dtype(const TrainingStep& step, const WrapUnit& wrap);

// Ranks that share one copy of the parameters.
int shard_ranks(const TrainingStep& step);

struct Unit {
  WrapUnit wrap;
  UnitIndex name = -1;
  UnitSize size;

  // Persistent: this rank's shard.
  BufferIndex shard = -1;
  BufferIndex state = -1;
  // Unshard.
  BufferIndex cast_shard = -1;  // the shard in the gather dtype, -1 where no cast is needed
  BufferIndex gathered = -1;    // flat all-gather output
  BufferIndex unsharded = -1;   // the parameters that compute uses
  BufferIndex slice = -1;       // 1/n of them, from forward to backward
  BufferIndex regathered = -1;  // flat all-gather output within the group of n
  bool unshard_in_backward = true;
  Dtype gather = Dtype::bf16;  // of what is gathered: int8 where that is fp8 data and its scales
  // Reduce.
  BufferIndex accumulated = -1;  // unsharded gradients kept across micro-batches, reduce dtype
  BufferIndex reduce_input = -1;
  BufferIndex reduce_output = -1;  // -1 where it is the gradient shard itself (no cast)
  BufferIndex gradient_shard = -1;
  BufferIndex fresh_shard = -1;  // a later micro-batch's shard before it is added

  // State while the schedule is written.
  BufferIndex flat = -1;  // what the last gather fills: gathered or regathered
  bool is_unsharded = false;
  OpIndex sliced = -1;           // made its slice, which it holds when >= 0
  OpIndex gather_op = -1;        // in flight when >= 0
  bool has_accumulated = false;  // gradients of earlier micro-batches wait unsharded
  bool has_gradient_shard = false;
  OpIndex reduced = -1;  // last op of its reduction in this micro-batch
};

// Declares the buffers of every unit of the model.
std::vector<Unit> declare_units(ScheduleBuilder& builder, const TrainingStep& step,
                                const Streams& streams);

}  // namespace stepcast::fsdp2
