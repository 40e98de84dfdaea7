#pragma once
// A collective of a cluster for the messages engine, and the closed form that it checks: both from
// the channels that NCCL's search finds, its rate a channel, its latency a step and its chunks, and
// neither with any factor that NCCL's authors fitted on top (tree corrections, caps, 0.92).
//
//   const CollectiveMessages m = collective_messages(cluster, mesh, Axis::world, {kind, ring,
//   1e9}); m.base + simulate_messages(m.input).seconds   // against m.closed_form
//
// See collective_lowering.hpp; docs/engines.md has the figures. Tested by
// tests/unit/forecast/collective_messages_test.cpp.

#include <vector>

#include "sim/collectives/collective_cost.hpp"
#include "sim/engines/messages.hpp"

namespace stepcast {

struct CollectiveQuestion {
  CollectiveKind kind = CollectiveKind::all_reduce;  // or all_gather, reduce_scatter
  NcclAlgorithm algorithm = NcclAlgorithm::ring;     // one of algorithms_by_messages()
  double bytes = 0;                                  // the tensor; gathered; unreduced
  NcclProtocol protocol = NcclProtocol::simple;      // of ring and tree
};

struct CollectiveMessages {
  MessagesInput input;       // all communicators of the axis, side by side
  Seconds base = 0;          // before the first message
  Seconds closed_form = 0;   // base included
  Seconds slowest_link = 0;  // of the nodes' links, by the loads of the fluid engine
  int ranks = 0;             // of a communicator
  int nodes = 0;
  int channels = 0;
  int communicators = 0;
};

// What there are messages for: ring; for an all-reduce tree; below NVSwitches that reduce NVLS on
// one node, for an all-reduce on several NVLSTree.
std::vector<NcclAlgorithm> algorithms_by_messages(const Cluster& cluster, Mesh mesh, Axis axis,
                                                  CollectiveKind kind,
                                                  const CollectiveOptions& options = {});

// Throws InputError for what it has no messages for: another algorithm, nodes that hold different
// GPUs of a communicator, fabrics with oversubscribed uplinks.
CollectiveMessages collective_messages(const Cluster& cluster, Mesh mesh, Axis axis,
                                       const CollectiveQuestion& question,
                                       const CollectiveOptions& options = {});

// Seconds that simulate_messages() would take, roughly (docs/engines.md).
double messages_wall_seconds(const MessagesInput& input);

}  // namespace stepcast
