#pragma once
// join(): ranks that have run out of data shadow the collectives of those that have not.
//
// Every iteration (a forward with its backward):
//
//   a rank at work                              a rank that has joined
//   all-reduce of one number: who is at work    the same, and the host reads it
//   with buffers: which rank's? (MAX, read)     the same, and the broadcast
//   all-reduce of one number: will you sync?    the same, and the host reads it
//   forward, backward, a bucket at a time       all buckets as zeros, one all-reduce each
//   used map, if there is one                   zeros
//   optimizer                                   nothing: its parameters grow old, and are broadcast
//                                               when the last rank joins
//
// The buckets of zeros are allocated at once: 4 bytes a parameter beside the rank's own buckets.
// Gradients are divided by the initial W; with divide_by_initial_world_size=False by the ranks at
// work, for which the host waits for the first small all-reduce before the first copy-in.
// Source: PyTorch distributed.py (_DDPJoinHook), algorithms/join.py (docs/sources.md 1.2).
// Tested by tests/unit/strategies/ddp_join_test.cpp.

#include <span>
#include <string>

#include "sim/schedule/builder.hpp"
#include "sim/strategies/common/layer_walk.hpp"
#include "sim/strategies/ddp/broadcast_coalesced.hpp"
#include "sim/strategies/ddp/comm_hook.hpp"
#include "sim/strategies/ddp/streams.hpp"
#include "sim/strategies/ddp/used_map.hpp"

namespace stepcast::ddp {

// The two small all-reduces of a rank at work, at the start of its forward.
class JoinNotice {
 public:
  JoinNotice(ScheduleBuilder& builder, const std::string& label, Streams streams);

  void notify(LayerWalk& walk, int micro_batch);     // who is at work
  void will_sync(LayerWalk& walk, int micro_batch);  // will you sync?
  // Whose buffers are broadcast? The host reads the answer.
  void choose_source(LayerWalk& walk);
  // Before the first copy-in where gradients are divided by the ranks at work.
  void await_count();

  // The same two on a rank that has joined: the host reads each.
  void shadow_count(LayerWalk& walk, int micro_batch);
  void shadow_sync(LayerWalk& walk);

 private:
  OpIndex number(Name verb, BufferIndex buffer, Reduction reduction, LayerWalk& walk);
  void read(OpIndex reduced, BufferIndex buffer, LayerWalk& walk);

  ScheduleBuilder& builder_;
  Streams streams_;
  BufferIndex count_, sync_, source_;
  OpIndex counted_ = -1;
};

// The iterations of a rank that has joined, one a micro-batch.
class JoinedRank {
 public:
  // `held`: what stays on the GPU while it shadows the others. `buffers` where they are broadcast.
  JoinedRank(const HookPlace& place, const std::vector<Bucket>& buckets, CommHook hook,
             std::vector<View> held, UsedMap* used_map, BroadcastCoalesced* buffers, int source);

  void iteration(LayerWalk& walk, int micro_batch);

 private:
  HookPlace place_;
  JoinNotice notice_;
  std::unique_ptr<BucketReduction> reduction_;
  std::vector<View> held_;
  UsedMap* used_map_;
  BroadcastCoalesced* module_buffers_;
  int source_;                      // the rank whose buffers are broadcast
  std::vector<BufferIndex> zeros_;  // by bucket
};

}  // namespace stepcast::ddp
