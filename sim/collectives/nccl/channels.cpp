// Source: NCCL 2.28.9, src/graph/connect.cc (channels of a communicator) and src/enqueue.cc
// (channels and threads of a call). Example, 8 ranks and 24 channels: a ring with LL or Simple
// takes one channel per full 32 KiB, at least 1 and at most 24. Tested against all rows of
// golden/select.csv.

#include "sim/collectives/nccl/channels.hpp"

#include <algorithm>

namespace stepcast::nccl {
namespace {

constexpr int max_channels = 64;
constexpr int warp = 32;

int max_threads(const SearchResult& search, NcclAlgorithm a, NcclProtocol p) {
  if (p == NcclProtocol::ll) return 512;
  if (p == NcclProtocol::ll128) return 640;
  if (a == NcclAlgorithm::ring) {
    return search.ring.bw_intra * search.ring.channels <= 12.0 ? 256 : 512;
  }
  return a == NcclAlgorithm::tree ? 512 : 640;
}

// Bytes per thread and channel below which a call takes fewer of them.
std::int64_t thread_threshold(int ranks, NcclAlgorithm a, NcclProtocol p) {
  if (p == NcclProtocol::simple) return 64;
  if (p == NcclProtocol::ll && a == NcclAlgorithm::ring) return std::int64_t{8} * ranks;
  return 8;
}

int launched_channels(CollectiveKind f, NcclProtocol p, std::int64_t bytes, int channels) {
  // all-gather and reduce-scatter: bytes is the total over ranks already
  const std::int64_t per_byte = f == CollectiveKind::all_reduce ? 2 : 1;
  const std::int64_t traffic = bytes * per_byte * (p == NcclProtocol::ll ? 4 : 1);
  const std::int64_t wanted = ceil_div(std::max<std::int64_t>(traffic, 1), 16 * kib);
  return static_cast<int>(std::min<std::int64_t>(channels, wanted));
}

}  // namespace

int communicator_channels(const CommShape& comm, const SearchResult& search) {
  int channels = 2 * std::min(search.ring.channels, search.tree.channels);
  if (comm.min_compute_capability >= 90 && comm.nodes > 1 && search.ring.bw_intra > 45.0 &&
      channels < 16) {
    channels *= 2;
  }
  if (comm.settings.max_channels > 0) channels = std::min(channels, comm.settings.max_channels);
  channels = std::max(channels, comm.settings.min_channels);
  return std::clamp(channels, 1, max_channels);
}

int nvls_channels(const CommShape& comm) {
  if (!comm.nvls_supported) return 0;
  const TunerSettings& said = comm.settings;
  int channels = comm.min_compute_capability < 100 ? 16 : comm.nodes > 1 ? 32 : 24;
  if (said.nvls_channels > 0) channels = said.nvls_channels;
  if (said.max_nvls_channels > 0) channels = std::min(channels, said.max_nvls_channels);
  return std::max(channels, said.min_nvls_channels);
}

Launch launch_of(const CommShape& comm, const SearchResult& search, CollectiveKind f,
                 NcclAlgorithm a, NcclProtocol p, std::int64_t bytes) {
  Launch launch;
  launch.channels = communicator_channels(comm, search);
  launch.threads = max_threads(search, a, p);
  if (a == NcclAlgorithm::nvls || a == NcclAlgorithm::nvls_tree) {
    launch.channels = nvls_channels(comm);
  } else if (a == NcclAlgorithm::ring || a == NcclAlgorithm::tree) {
    const std::int64_t threshold = thread_threshold(comm.ranks, a, p);
    const auto too_small = [&] {
      return bytes < std::int64_t{launch.channels} * launch.threads * threshold;
    };
    while (launch.channels >= 2 && too_small()) --launch.channels;
    while (launch.threads % 128 == 0 && too_small()) launch.threads /= 2;
  }
  if (a == NcclAlgorithm::ring && p == NcclProtocol::simple) launch.threads += warp;  // sync warp
  launch.threads = std::max(launch.threads, 3 * warp);
  if (a == NcclAlgorithm::tree || a == NcclAlgorithm::pat) launch.threads = 640;
  launch.launched = launched_channels(f, p, bytes, launch.channels);
  return launch;
}

}  // namespace stepcast::nccl
