#pragma once
// Does the step fit, and if not: what is the smallest change that does? Found by trying: each
// candidate is resolved, scheduled and replayed through the allocator's ledger; none is timed.

#include <string>
#include <vector>

#include "sim/forecast/resolve.hpp"
#include "sim/report/report.hpp"

namespace stepcast {

// The peak of each role: the schedule's allocs and frees in host issue order (sim/memory), with the
// CUDA context and NCCL's buffers.
std::vector<RoleMemory> memory_of_roles(const Resolved& resolved, const Schedule& schedule);

bool fits(const std::vector<RoleMemory>& roles, Bytes capacity);

// "checkpointing full, or 64 GPUs instead of 8": single changes that fit, else two together, else
// "" when none was found. The changes tried: a smaller micro-batch, more checkpointing, sharding,
// more GPUs (doubling, to 65,536).
std::string smallest_change(const Scenario& scenario);

}  // namespace stepcast
