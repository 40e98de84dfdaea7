#pragma once
// Connections of a communicator's channels, over the links of the nodes that they cross.
//
// Every hop of every channel: the links of the node's graph that it crosses, each with NCCL's speed
// and shared by all that crosses it, and first of all the channel's own rate, so that a channel
// alone goes at what the search gave it. Between nodes: out by the channel's NIC, in by the next
// node's. The fabric between NICs does not block. For collective_lowering.cpp.

#include <map>
#include <tuple>
#include <vector>

#include "sim/collectives/link_load.hpp"
#include "sim/forecast/collective_lowering.hpp"

namespace stepcast {

// A channel of a communicator. Nodes are those of its group, by number; GPUs are indices of the
// system.
struct ChannelAt {
  int communicator = 0;
  NcclAlgorithm algorithm = NcclAlgorithm::ring;
  const RankGroup* group = nullptr;
  Lowering::Pace pace;
  int channel = 0;
};

class MessageWays {
 public:
  MessageWays(const Cluster& cluster, std::map<int, std::vector<BrokenLink>> broken)
      : cluster_(cluster), broken_(std::move(broken)) {}

  // All give the number of a connection. `rate`: which of the channel's rates on that node it is,
  // a number of the caller's from 0 on.
  int within(const ChannelAt& of, int node, int from, int to, int rate);
  int between(const ChannelAt& of, int from_node, int from, int to_node, int to);
  // Through the node's NVSwitch: from all GPUs into the head, or from the head into all.
  int through_switch(const ChannelAt& of, int node, int head, bool copies);

  const std::vector<MessageLink>& links() const { return links_; }
  const std::vector<MessageConnection>& connections() const { return connections_; }

 private:
  nccl::Channel channel_on(const ChannelAt& of, int machine_node) const;
  double left_of(int machine_node, const NodeTraffic::Place& place, nccl::PathType type) const;
  void add_link(int machine_node, const NodeTraffic::Place& place, nccl::PathType type, double gbps,
                std::vector<int>& way);
  void add_rate(const ChannelAt& of, int machine_node, int what, double gbps,
                std::vector<int>& way);
  void along(const ChannelAt& of, int machine_node, nccl::SystemVertex from, nccl::SystemVertex to,
             std::vector<int>& way);
  int connection(std::vector<int> way, Seconds latency);

  const Cluster& cluster_;
  std::map<int, std::vector<BrokenLink>> broken_;
  std::vector<MessageLink> links_;
  std::vector<MessageConnection> connections_;
  std::map<std::tuple<int, NodeTraffic::Place>, int> known_links_;  // by node
  // By communicator and graph, channel, node, what.
  std::map<std::tuple<int, int, int, int>, int> rates_;
};

}  // namespace stepcast
