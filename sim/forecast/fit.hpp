#pragma once
// Does the step fit, and if not: what is the smallest change that does? Found by trying: each
// candidate is resolved, scheduled and counted by the ledger; those that come near the capacity are
// timed and replayed through the caching allocator, as the forecast is.

#include <string>
#include <vector>

#include "sim/forecast/resolve.hpp"
#include "sim/memory/replay.hpp"
#include "sim/report/report.hpp"

namespace stepcast {

// The peak of each role: the schedule's allocs and frees in host issue order (sim/memory), with the
// CUDA context and NCCL's buffers.
std::vector<RoleMemory> memory_of_roles(const Resolved& resolved, const Schedule& schedule);

// What the allocator has: the GPU's memory beside the CUDA context and NCCL. Where the tensors
// alone are too much nothing is to be decided any more: then the replay has no limit, and shows
// what would be reserved.
ReplayOptions replay_options(const Resolved& resolved, const std::vector<RoleMemory>& roles);

// Runs the timeline through the caching allocator and fills RoleMemory::reserved.
std::vector<RoleReplay> replay_within(const Resolved& resolved, const Schedule& schedule,
                                      const Timeline& timeline, std::vector<RoleMemory>& roles);

// By the tensors, and by the allocator where it was replayed: PyTorch frees its cache before it
// gives up, so what is reserved does not decide, only what could not be allocated at all.
bool fits(const std::vector<RoleMemory>& roles, Bytes capacity);

// Whether some role asks for what the allocator has not, whatever it gives back.
bool ends_without_memory(const std::vector<RoleReplay>& replays);

// "expandable_segments true" where the step fits with it and not without; else "".
std::string change_of_allocator(const Resolved& resolved, const Schedule& schedule,
                                const Timeline& timeline, const std::vector<RoleReplay>& replays);

// "checkpointing full, or 64 GPUs instead of 8": single changes that fit, else two together, else
// "" when none was found. The changes tried: a smaller micro-batch, more checkpointing, sharding,
// more GPUs (doubling, to 65,536).
std::string smallest_change(const Scenario& scenario);

}  // namespace stepcast
