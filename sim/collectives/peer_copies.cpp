#include "sim/collectives/peer_copies.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace stepcast {
namespace {

Seconds busiest(const NodeTraffic& traffic) {
  Seconds most = 0;
  for (const auto& [place, link] : traffic.links) {
    most = std::max(most, link.bytes / (link.gbps * 1e9));
  }
  return most;
}

}  // namespace

PeerCopies peer_copies(const nccl::System& system, CollectiveKind kind, double bytes) {
  const bool scatters = kind == CollectiveKind::scatter;
  STEPCAST_ASSERT(scatters || kind == CollectiveKind::gather, "only scatter and gather are copies");
  PeerCopies copies;
  const int gpus = static_cast<int>(system.gpus.size());
  const double part = bytes / gpus;
  for (int peer = 1; peer < gpus; ++peer) {
    const int from = scatters ? 0 : peer;
    const int to = scatters ? peer : 0;
    add_copy(system, from, to, part, &copies.traffic);
    if (!scatters) continue;
    NodeTraffic alone;
    add_copy(system, from, to, part, &alone);
    copies.seconds += peer_copy_start + busiest(alone);
  }
  if (!scatters) copies.seconds = peer_copy_start + busiest(copies.traffic);
  return copies;
}

}  // namespace stepcast
