#pragma once
// Communicators of a cluster as links and connections, and collectives as messages over them: from
// the channels that NCCL's search finds, its rate a channel, its latency a step, its chunks;
// without any factor that NCCL's authors fitted on top (tree corrections, caps, 0.92, NVLS' 0.85).
//
//   Lowering lowering(cluster, options);
//   const RankGroup group = group_of(cluster, mesh, Axis::world, 0);
//   lowering.lower(0, group, {CollectiveKind::all_reduce, ring, simple, 1e9}).collective
//
// How: collective_lowering.cpp. Tested by tests/unit/forecast/collective_messages_test.cpp and
// step_by_messages_test.cpp.

#include <map>
#include <memory>
#include <vector>

#include "sim/collectives/collective_cost.hpp"
#include "sim/engines/messages.hpp"
#include "sim/schedule/schedule.hpp"

namespace stepcast {

namespace nccl {
struct GraphResult;
class System;
}  // namespace nccl

// A communicator by where it lies.
struct RankGroup {
  std::vector<int> nodes;  // ascending
  std::vector<int> gpus;   // local, the same on each of them
  int ranks() const { return static_cast<int>(nodes.size() * gpus.size()); }
};

// The communicator of an axis that a rank is in. Throws InputError where its nodes hold different
// GPUs of it.
RankGroup group_of(const Cluster& cluster, Mesh mesh, Axis axis, int rank);

struct LoweredCall {
  CollectiveKind kind = CollectiveKind::all_reduce;  // not scatter, gather
  NcclAlgorithm algorithm = NcclAlgorithm::ring;
  NcclProtocol protocol = NcclProtocol::simple;
  double bytes = 0;       // the tensor; gathered; unreduced
  int most_channels = 0;  // 0: all that the search found
};

struct Lowered {
  MessageCollective collective;
  Seconds before = 0;  // to the first message
};

class Lowering {
 public:
  // Broken links by node; their channels keep what the search found on whole ones.
  Lowering(const Cluster& cluster, const CollectiveOptions& options,
           std::map<int, std::vector<BrokenLink>> broken = {});
  ~Lowering();
  Lowering(const Lowering&) = delete;
  Lowering& operator=(const Lowering&) = delete;

  // `communicator`: a number of the caller's. Communicators share the links of their nodes; each
  // has its own connections, and channels of its own rate.
  Lowered lower(int communicator, const RankGroup& group, const LoweredCall& call);

  // All that was lowered runs over these.
  const std::vector<MessageLink>& links() const;
  const std::vector<MessageConnection>& connections() const;

  // What closed forms need.
  struct Pace {
    const nccl::System* system = nullptr;  // of each of its nodes
    const nccl::GraphResult* graph = nullptr;
    Seconds within = 0, between = 0;           // a step
    double within_gbps = 0, between_gbps = 0;  // a channel
  };
  Pace pace(const RankGroup& group, NcclAlgorithm algorithm, NcclProtocol protocol);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace stepcast
