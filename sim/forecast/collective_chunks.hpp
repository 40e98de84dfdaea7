#pragma once
// How NCCL cuts a channel's bytes into chunks: by the slots of its buffers, smaller where there is
// little to send. Bytes of data; the flags of LL and LL128 come on top (wire_factor).
// Source: NCCL 2.28.9, src/enqueue.cc and src/include/device.h.

#include "sim/collectives/nccl/types.hpp"

namespace stepcast {

inline constexpr int message_slots = 8;  // NCCL_STEPS

// Of one slot: NCCL_BUFFSIZE / NCCL_STEPS.
double slot_bytes(NcclProtocol protocol);

// Chunks in a ring, and how many loops are under way: 4 slots of 512 KiB and 2 for Simple, one slot
// and 8 for LL and LL128.
struct ChunkRule {
  double bytes = 0;
  int window = 0;
};
ChunkRule ring_chunks(NcclProtocol protocol);

// `bytes`: of the channel.
double tree_chunk(NcclProtocol protocol, double bytes, int ranks, int nodes);
double nvls_chunk(double bytes, int heads);
double nvls_tree_chunk(double bytes, int heads, int nodes);

}  // namespace stepcast
