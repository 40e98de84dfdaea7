#include "sim/collectives/broken_links.hpp"

#include "base/error.hpp"

namespace stepcast {
namespace {

bool is_down(const std::vector<BrokenLink>& broken, int nic) {
  for (const BrokenLink& link : broken) {
    if (link.kind == BrokenLink::Kind::nic && link.index == nic && link.speed == 0) return true;
  }
  return false;
}

// The next network port of a NIC that is up.
int next_port(const nccl::System& system, const std::vector<BrokenLink>& broken, int port) {
  const int ports = static_cast<int>(system.nets.size());
  for (int i = 0; i < ports; ++i) {
    const int other = (port + i) % ports;
    const auto vertex = system.nets[static_cast<std::size_t>(other)];
    if (!is_down(broken, system.graph[vertex].device)) return other;
  }
  STEPCAST_ASSERT(false, "a node without a NIC that is up");
}

// Whether the link between these ends is one of them, in either direction.
bool concerns(const BrokenLink& broken, const Machine& machine, const NodeTraffic::Place& place,
              nccl::PathType type) {
  const auto& [from_kind, from, to_kind, to] = place;
  const auto index = static_cast<std::size_t>(broken.index);
  if (broken.kind == BrokenLink::Kind::nic) {
    const Vertex nic = machine.nics[index];
    return type == nccl::PathType::net && (from == nic || to == nic);
  }
  const bool nvlink = type == nccl::PathType::nvl;
  if (nvlink != (broken.kind == BrokenLink::Kind::nvlink)) return false;
  const Vertex gpu = machine.gpus[index];
  return (from_kind == nccl::NodeKind::gpu && from == gpu) ||
         (to_kind == nccl::NodeKind::gpu && to == gpu);
}

}  // namespace

void reroute(const nccl::System& system, const std::vector<BrokenLink>& broken,
             nccl::GraphResult* graph) {
  for (nccl::Channel& channel : graph->orders) {
    if (channel.nic_in >= 0) channel.nic_in = next_port(system, broken, channel.nic_in);
    if (channel.nic_out >= 0) channel.nic_out = next_port(system, broken, channel.nic_out);
  }
}

void slow_down(const Machine& machine, const std::vector<BrokenLink>& broken,
               NodeTraffic* traffic) {
  for (const BrokenLink& each : broken) {
    if (each.speed == 0) continue;
    for (auto& [place, link] : traffic->links) {
      if (concerns(each, machine, place, link.type)) link.gbps *= each.speed;
    }
  }
}

}  // namespace stepcast
