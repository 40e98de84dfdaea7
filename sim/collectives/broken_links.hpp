#pragma once
// Links of one node that are slow or gone, while NCCL's choices stay as they were: it chose when
// the job began, and a ring goes on at the pace of its slowest hop.
//
//   nic 2 at half speed     what leaves or enters by NIC 2 takes twice as long there
//   nic 2 down              channels that used it use the next NIC that is up, over the path that
//                           the GPU has to that one; if every NIC was full, that one is twice as
//                           full
//   NVLinks of GPU 1        at a fraction: some of its links are down
//   PCIe link of GPU 1      the same: it trained at half its width
//
// What a communicator loses: its fullest link needs L seconds of each collective as things were and
// L' now; the difference comes on top of the time that NCCL's model or a measurement says. A link
// that was half empty may slow down to half without anybody's noticing. Communicators that touch no
// broken link are as before: with NIC 2 of a node slow, the replica group on rail 2 loses, and its
// seven siblings do not.
//
// Example: all-gather of S over 2 x 8 GPUs, 8 NICs of 50 GB/s: S * 15/16 / 8 / 50 GB/s a NIC. At
// half speed as much again is lost.
//
// Not modelled: that NCCL would choose other channels when the job starts anew.
// Tested by tests/unit/collectives/broken_links_test.cpp.

#include <cstdint>
#include <tuple>
#include <vector>

#include "sim/collectives/link_load.hpp"
#include "sim/collectives/nccl/types.hpp"
#include "topologies/topology.hpp"

namespace stepcast {

struct BrokenLink {
  enum class Kind : std::uint8_t { nic, nvlink, pcie };
  Kind kind = Kind::nic;
  int index = 0;     // of the machine's NICs, or of its GPUs
  double speed = 1;  // that is left; 0: the NIC is down

  friend bool operator<(const BrokenLink& a, const BrokenLink& b) {
    return std::tie(a.kind, a.index, a.speed) < std::tie(b.kind, b.index, b.speed);
  }
};

// A node with broken links, seen by one of its GPUs: only communicators that it is in are asked
// for.
struct BrokenNode {
  int node = 0;
  int gpu = 0;  // local
  std::vector<BrokenLink> links;
};

// Channels by a NIC that is down leave and enter by the next one that is up.
void reroute(const nccl::System& system, const std::vector<BrokenLink>& broken,
             nccl::GraphResult* graph);

// Takes from the links' speeds.
void slow_down(const Machine& machine, const std::vector<BrokenLink>& broken, NodeTraffic* traffic);

}  // namespace stepcast
