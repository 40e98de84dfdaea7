#pragma once
// Which algorithm and protocol may run a function at all, by default (no NCCL_ALGO / NCCL_PROTO,
// no SHARP: CollNet, and with it NVLS across nodes, is off).

#include "sim/collectives/nccl/constants.hpp"
#include "sim/collectives/nccl/types.hpp"
#include "sim/schedule/schedule.hpp"

namespace stepcast::nccl {

// The function has an implementation with this algorithm and protocol.
bool exists(CollectiveKind f, NcclAlgorithm a, NcclProtocol p);

// ... and this communicator may use it.
bool enabled(const Constants& constants, const CommShape& comm, const SearchResult& search,
             CollectiveKind f, NcclAlgorithm a, NcclProtocol p);

// NVLink SHARP reduces this operation on this type. It never does NCCL's avg, which on floating
// types multiplies each input by 1/n before the sum: FSDP2's AVG reductions stay on ring and tree.
bool nvls_reduces(Dtype dtype, Reduction reduction);

}  // namespace stepcast::nccl
