#pragma once
// Small schedules whose timelines were worked out by hand, written op by op so that the engines are
// tested without the strategies. The rules are PyTorch's (docs/sources.md); a step is one step.

#include <string>
#include <vector>

#include "sim/schedule/schedule.hpp"

namespace stepcast::testing {

// DDP on one stream of compute and one communicator: `layers` layers, forward in order, backward in
// reverse; buckets in launch order, each the list of its layers (the one ready last closes it).
// Verbs: forward, backward, all_reduce. Units: l0 ...; buckets: b0 ...
Schedule ddp(int layers, const std::vector<std::vector<int>>& buckets);

struct Fsdp2Options {
  int units = 3;            // besides the root
  bool all_reduce = false;  // HSDP: the reduced shard is all-reduced on its own communicator
  bool separate_reduce_scatter = false;  // a communicator of its own for the reduce-scatters
};
// FSDP2: root (embedding and head) and units u0 ...; verbs: copy_in, all_gather, copy_out, compute
// (forward and backward; of the root: embedding, head), reduce_copy_in, reduce_scatter, all_reduce.
Schedule fsdp2(const Fsdp2Options& options);

}  // namespace stepcast::testing
