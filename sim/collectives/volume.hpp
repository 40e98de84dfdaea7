#pragma once
// Closed forms: bytes sent per rank and step by each strategy, from the number of parameters alone.
// For tables and back-of-the-envelope checks; the schedules give the same numbers op by op, with
// padding and roots on top.
//
//   Volume v = strategy_volume({.parameters = 7e9, .ranks = 8}, VolumeStrategy::full_shard);
//   v.total()   // 36.75e9: two all-gathers and a reduce-scatter of 12.25e9 each
//
// Ring counting: an all-reduce of S over N ranks sends 2(N-1)/N S per rank, an all-gather or a
// reduce-scatter (N-1)/N S. All bytes. Tested by tests/unit/collectives/volume_test.cpp.

#include <string_view>

namespace stepcast {

// Per rank, S bytes over N ranks around a ring.
double ring_all_reduce_bytes(double size, int ranks);
double ring_all_gather_bytes(double size, int ranks);      // size: gathered
double ring_reduce_scatter_bytes(double size, int ranks);  // size: of the input
// All ranks send S to one that sends S back to all (nn.DataParallel): through that one's link, in
// and out together.
double primary_bytes(double size, int ranks);

enum class VolumeStrategy {
  ddp,            // all-reduce of the gradients
  full_shard,     // FSDP: all-gather in forward and in backward, reduce-scatter
  shard_grad_op,  // FSDP: parameters stay gathered from forward to backward
  no_reshard,     // FSDP2 with reshard_after_forward = False
  zero1,          // DeepSpeed: gradients all-reduced, updated parameters all-gathered
  zero2,          // ... in buckets; every micro-batch
  zero2_reduce,   // ... each bucket reduced to its owner only
  zero3,          // DeepSpeed: as full_shard, nothing reused
};

// Under accumulation, whether micro-batches before the last reduce their gradients too.
enum class VolumeSync {
  every,
  last,       // no_sync: whole gradients are kept until the last micro-batch
  last_free,  // FSDP2 without resharding after backward: parameters stay gathered, too
};

struct VolumeOptions {
  double parameters = 0;
  int ranks = 1;
  double gather_bytes = 2;  // of a gathered parameter
  double reduce_bytes = 2;  // of a reduced gradient
  int micro_batches = 1;
  VolumeSync sync = VolumeSync::every;
};

struct Volume {  // bytes sent per rank and step
  double all_gather = 0;
  double reduce_scatter = 0;
  double all_reduce = 0;
  double reduce = 0;

  double total() const { return all_gather + reduce_scatter + all_reduce + reduce; }
};

// Throws InputError for a combination the framework does not have (ZeRO-1 synchronises once a step;
// ZeRO-2 and ZeRO-3 have no no_sync).
Volume strategy_volume(const VolumeOptions& options, VolumeStrategy strategy);

// Hybrid sharding: full sharding over shard_ranks (within the node, options.ranks does not count),
// then every rank all-reduces its shard of the gradients over `replicas`. Textbooks count 16-bit
// gradients; the framework reduces fp32 by default (reduce_bytes = 4), which doubles `inter`.
struct HybridVolume {
  double intra = 0;  // bytes sent per rank and step within the shard group
  double inter = 0;  // ... between replicas
};
HybridVolume hybrid_volume(const VolumeOptions& options, int shard_ranks, int replicas);

std::string_view to_string(VolumeStrategy strategy);

}  // namespace stepcast
