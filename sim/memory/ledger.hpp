#pragma once
// What a GPU holds while the schedule is issued: bytes by kind after every alloc and free, the
// peak, when it is and what holds it then.
//
// Counts as PyTorch's torch.cuda.memory_allocated does: in host issue order, a free at once where
// the host issues it whatever its FreeRule, persistent buffers from the start, views never. So the
// peak is that of max_memory_allocated, whatever the machine's speed. What the allocator keeps
// reserved beyond it, and the CUDA context and NCCL's buffers (overheads.hpp), come on top.
//
// Example: persistent 16, then alloc 4, alloc 2, free the 4, alloc 1: levels 20, 22, 18, 19; the
// peak is 22 at the second alloc.
//
// The programs run once each in order and the last one a second time, so that what a step leaves
// behind shows. One pass over the ops. Tested by tests/unit/memory/ledger_test.cpp.

#include <array>
#include <string>
#include <vector>

#include "sim/schedule/schedule.hpp"

namespace stepcast {

inline constexpr std::size_t buffer_kinds = static_cast<std::size_t>(BufferKind::other) + 1;
using KindBytes = std::array<Bytes, buffer_kinds>;  // indexed by BufferKind

struct LedgerHolding {
  Name buffer;
  BufferKind kind = BufferKind::other;
  Bytes bytes = 0;
};

struct LedgerMoment {
  int program = -1;  // index into Role::steps; -1: before the first step
  Name step;         // its name
  OpIndex op = -1;   // the alloc that reached it; -1: the level at the start is the peak
  std::string op_name;
  Phase phase = Phase::setup;
  Bytes total = 0;
  KindBytes by_kind{};
  std::vector<LedgerHolding> holdings;  // largest first; their sum is total
};

struct LedgerSample {
  int program = -1;
  OpIndex op = -1;  // an alloc or a free
  Bytes total = 0;  // after it
};

struct RoleLedger {
  Name role;
  int ranks = 0;
  Bytes persistent = 0;  // before the first step
  KindBytes persistent_by_kind{};
  LedgerMoment peak;                     // over all steps; the earliest of equal ones
  std::vector<LedgerMoment> step_peaks;  // by program; holdings left empty
  KindBytes highest_by_kind{};           // each kind's own peak, not at the same time
  Bytes growth = 0;  // bytes more after a steady step than before it; 0 in a sound schedule
  std::vector<LedgerSample> samples;  // the programs once each, in host order
};

// The schedule must have no problems() (an alloc of what is alive, a free of what is not, are
// STEPCAST_ASSERTs). Sums beyond 2^63 - 1 bytes: InputError.
std::vector<RoleLedger> memory_ledger(const Schedule& schedule);

}  // namespace stepcast
