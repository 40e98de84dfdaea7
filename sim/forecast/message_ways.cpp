#include "sim/forecast/message_ways.hpp"

#include <algorithm>
#include <utility>

#include "sim/collectives/nccl/link_speeds.hpp"
#include "sim/collectives/nccl/paths.hpp"
#include "sim/collectives/nccl/system.hpp"

namespace stepcast {
namespace {

using nccl::NodeKind;
using nccl::PathType;
using nccl::SystemVertex;

// Names of a channel's rates beside those of the hops of a chain.
constexpr int leaving = -1, entering = -2;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

}  // namespace

// The channel on a node, whose broken NICs it avoids.
nccl::Channel MessageWays::channel_on(const ChannelAt& of, int of_node) const {
  const auto found = broken_.find(of_node);
  if (found == broken_.end()) return of.pace.graph->orders[at(of.channel)];
  nccl::GraphResult one;
  one.orders = {of.pace.graph->orders[at(of.channel)]};
  reroute(*of.pace.system, found->second, &one);
  return one.orders.front();
}

double MessageWays::left_of(int of_node, const NodeTraffic::Place& place, PathType type) const {
  const auto found = broken_.find(of_node);
  if (found == broken_.end()) return 1;
  NodeTraffic one;
  one.links[place] = {type, 1, 0};
  slow_down(cluster_.machine, found->second, &one);
  return one.links[place].gbps;
}

void MessageWays::add_link(int of_node, const NodeTraffic::Place& place, PathType type, double gbps,
                           std::vector<int>& way) {
  const auto [found, fresh] =
      known_links_.emplace(std::tuple(of_node, place), static_cast<int>(links_.size()));
  const double speed = gbps * left_of(of_node, place, type);
  if (fresh) links_.push_back({speed});
  MessageLink& link = links_[at(found->second)];
  link.gbps = std::min(link.gbps, speed);
  way.push_back(found->second);
}
// A channel's own rate at `what` (a number of the caller's) of a node of this communicator.
void MessageWays::add_rate(const ChannelAt& of, int of_node, int what, double gbps,
                           std::vector<int>& way) {
  const int of_graph = 16 * of.communicator + static_cast<int>(of.algorithm);
  const auto [found, fresh] = rates_.emplace(std::tuple(of_graph, of.channel, of_node, what),
                                             static_cast<int>(links_.size()));
  if (fresh) links_.push_back({gbps});
  way.push_back(found->second);
}
void MessageWays::along(const ChannelAt& of, int of_node, SystemVertex from, SystemVertex to,
                        std::vector<int>& way) {
  const nccl::System& s = *of.pace.system;
  const nccl::Path& path = s.path(from, to);
  bool intel_bridge = false;  // costs a sixth more on PCIe
  if (path.type == PathType::phb && s.graph[from].kind == NodeKind::gpu) {
    for (const int id : path.links) {
      const nccl::Node& n = s.graph[s.links[at(id)].to];
      intel_bridge = intel_bridge || (n.kind == NodeKind::cpu && n.arch == nccl::CpuArch::x86 &&
                                      n.vendor == nccl::CpuVendor::intel);
    }
  }
  for (const int id : path.links) {
    const nccl::FlatLink& link = s.links[at(id)];
    const nccl::Node& a = s.graph[link.from];
    const nccl::Node& b = s.graph[link.to];
    const bool dearer = intel_bridge && link.type == PathType::pix;
    add_link(of_node, {a.kind, a.of_machine, b.kind, b.of_machine}, link.type,
             dearer ? link.gbps * 5.0 / 6 : link.gbps, way);
  }
}

int MessageWays::connection(std::vector<int> way, Seconds latency) {
  connections_.push_back({std::move(way), latency});
  return static_cast<int>(connections_.size()) - 1;
}
// Between GPUs (indices of the system) of the k-th node.
int MessageWays::within(const ChannelAt& of, int k, int a, int b, int rate) {
  const nccl::System& s = *of.pace.system;
  const int of_node = of.group->nodes[at(k)];
  std::vector<int> way;
  add_rate(of, of_node, rate, of.pace.within_gbps, way);
  along(of, of_node, s.gpus[at(a)], s.gpus[at(b)], way);
  if (!nccl::peer_to_peer(s, a, b)) {
    const nccl::Node& sender = s.graph[s.gpus[at(a)]];
    add_link(of_node, {sender.kind, sender.of_machine, sender.kind, sender.of_machine},
             PathType::sys, nccl::shared_memory_gbps_of(s, a), way);
  }
  return connection(std::move(way), of.pace.within);
}
// From GPU a of the k-th node to GPU b of the m-th.
int MessageWays::between(const ChannelAt& of, int k, int a, int m, int b) {
  const nccl::System& s = *of.pace.system;
  const int from = of.group->nodes[at(k)];
  const int to = of.group->nodes[at(m)];
  std::vector<int> way;
  add_rate(of, from, leaving, of.pace.between_gbps, way);
  along(of, from, s.gpus[at(a)], s.nets[at(channel_on(of, from).nic_out)], way);
  along(of, to, s.nets[at(channel_on(of, to).nic_in)], s.gpus[at(b)], way);
  add_rate(of, to, entering, of.pace.between_gbps, way);
  return connection(std::move(way), of.pace.between);
}
// Through the switch of the k-th node: from all into the head, or from the head into all.
int MessageWays::through_switch(const ChannelAt& of, int k, int head, bool copies) {
  const nccl::System& s = *of.pace.system;
  const int of_node = of.group->nodes[at(k)];
  std::vector<int> way;
  add_rate(of, of_node, copies ? 1 : 0, of.pace.within_gbps, way);
  const SystemVertex hub = s.nvs.front();
  for (const SystemVertex gpu : s.gpus) {
    if (copies) {
      along(of, of_node, hub, gpu, way);
    } else {
      along(of, of_node, gpu, hub, way);
    }
  }
  if (copies) {
    along(of, of_node, s.gpus[at(head)], hub, way);
  } else {
    along(of, of_node, hub, s.gpus[at(head)], way);
  }
  return connection(std::move(way), of.pace.within / 2);
}

}  // namespace stepcast
