#pragma once
// How many channels (CTAs, one SM each) and threads a communicator has and a call uses.

#include <cstdint>

#include "sim/collectives/nccl/types.hpp"
#include "sim/schedule/schedule.hpp"

namespace stepcast::nccl {

// Channels of the communicator: twice what the search found (the copies add CTAs, not bandwidth;
// for trees they carry the complementary tree), doubled again on Hopper and newer across nodes
// where few but fast channels were found.
int communicator_channels(const CommShape& comm, const SearchResult& search);

// Channels of NVLS kernels: 16 on Hopper, on Blackwell 24 on one node and 32 on several.
int nvls_channels(const CommShape& comm);

struct Launch {
  int channels = 1;  // what the tuner allows the call
  int launched = 1;  // what a single call starts: at least 16 KiB of traffic a channel
  int threads = 0;   // per channel
};

// bytes: NCCL's nBytes (tuner.hpp).
Launch launch_of(const CommShape& comm, const SearchResult& search, CollectiveKind f,
                 NcclAlgorithm a, NcclProtocol p, std::int64_t bytes);

}  // namespace stepcast::nccl
