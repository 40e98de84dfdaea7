#pragma once
// The rule of advise.hpp on numbers alone, so that it can be read and tested without a simulator.
//
// Example: 80 GB GPUs, one node of 8, DDP needs 100 GB of which 60 GB are gradients and optimizer.
// Short by 20; sharding over 8 frees 60 * 7/8 = 52.5 > 20: shard_grad_op. The count is only what is
// said: the replay of SHARD_GRAD_OP decides. Were that 85 GB all the same (gathered buffers),
// full_shard would be tried; and where the count says no but the replay fits (it keeps bf16
// parameters, DDP fp32 ones), it is SHARD_GRAD_OP.
//
// Tested by tests/unit/advise/decide_test.cpp, every leaf by hand.

#include <cstdint>
#include <string_view>

#include "base/units.hpp"

namespace stepcast {

enum class Leaf : std::uint8_t {
  ddp,            // fits without sharding
  shard_grad_op,  // ZeRO-2: gradients and optimizer sharded
  full_shard,     // ZeRO-3
  hybrid_shard,   // sharded in a node, replicated across
  exhausted,      // one unit does not fit: the data-parallel axis cannot help
  none,           // nothing fits at this checkpointing: activations, or too few GPUs
};

struct Facts {
  Bytes capacity = 0;
  int gpus = 1;
  int nodes = 1;
  int shard_group = 1;  // of hybrid_shard
  // Replayed peaks; what is not possible (hybrid_shard on one node) is beyond any capacity.
  Bytes ddp_peak = 0;
  Bytes shard_grad_op_peak = 0;
  Bytes full_shard_peak = 0;
  Bytes hybrid_shard_peak = 0;
  // Of DDP's persistent state, what ZeRO-2 shards.
  Bytes gradients_and_optimizer = 0;
  // The largest unit: gathered, its gradients, its reduce input, its activations when recomputed,
  // and the overheads of a process.
  Bytes unit = 0;
  // Of full_shard's simulated step; asked only where hybrid_shard fits.
  Seconds exposed_all_gather = 0;
  Seconds full_shard_step = 0;
};

// Exposed all-gathers below this part of the step are no reason to pay for replicas.
inline constexpr double exposed_enough = 0.02;

// How much DDP is over the capacity; 0 when it fits.
Bytes short_by(const Facts& facts);
// What sharding gradients and optimizer over the GPUs frees on each.
Bytes freed_by_zero2(const Facts& facts);

Leaf decide(const Facts& facts);

std::string_view to_string(Leaf leaf);

}  // namespace stepcast
