#pragma once
// Bytes that a collective puts on every link of a node, from the channels NCCL found: each hop of
// each channel follows its path through the machine. See link_load.cpp.

#include <map>
#include <tuple>

#include "sim/collectives/nccl/system.hpp"
#include "sim/schedule/schedule.hpp"

namespace stepcast {

// What one communicator, or several on one node, move. Bytes per byte of the collective's size.
struct NodeTraffic {
  using Place = std::tuple<nccl::NodeKind, Vertex, nccl::NodeKind, Vertex>;  // from, to
  struct Link {
    nccl::PathType type = nccl::PathType::pix;
    double gbps = 0;
    double bytes = 0;
    bool staged = false;  // no link: the way through shared host memory, as measured
  };
  std::map<Place, Link> links;  // one direction each
  double nic_out = 0;           // leaves the node by NICs
  double gpu_out = 0;           // leaves GPUs for others of the node
  bool staged = false;          // some of it through shared host memory
};

// Adds what communicator (ranks, nodes) moves on this node. `search` is this node's own; `channels`
// of it are used.
void add_traffic(const nccl::System& system, const nccl::GraphResult& graph, int channels,
                 CollectiveKind kind, NcclAlgorithm algorithm, int ranks, int nodes,
                 NodeTraffic* traffic);

// Adds a copy between two GPUs (indices of the system) by cudaMemcpyPeer: over NVLink or PCIe
// switches where the two may access each other, else by way of the CPU. No GPU relays it.
void add_copy(const nccl::System& system, int from, int to, double bytes, NodeTraffic* traffic);

// Bytes on the wire per byte of data: LL sends a flag with every 4 bytes, LL128 8 in 128.
double wire_factor(NcclProtocol protocol);

// Bytes each rank sends around a ring, per byte of the collective's size.
double ring_volume(CollectiveKind kind, int ranks);

}  // namespace stepcast
