// Ring: every hop of a channel carries the ring's volume, divided over the channels.
// Tree: a node sends S/2 up and S/2 to each of two children in the one tree and S/2 up in the other
// (S with two nodes, 1.5 S with three, else 2 S, the same down); within the node a chain passes S
// up and S down. Where two GPUs may not access each other the bytes also load the sender's way
// through shared host memory (link_speeds.hpp). NVLS on S bytes and n GPUs: all-reduce S (1 + 1/n)
// per GPU and direction, all-gather S/n out and S in, reduce-scatter S out and S/n in. PAT: as a
// ring, one rank a node.
//
// Example: all-gather of S over 2 x 8 GPUs by 8 rings. Each NIC carries (15/16 S) / 8 out and in.
//
// Source: NCCL 2.28.9, src/device/*.h, src/graph/trees.cc.

#include "sim/collectives/link_load.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "sim/collectives/nccl/link_speeds.hpp"
#include "sim/collectives/nccl/paths.hpp"
#include "sim/collectives/nccl/search.hpp"

namespace stepcast {
namespace {

using nccl::NodeKind;
using nccl::PathType;
using nccl::System;
using nccl::SystemVertex;

class Adder {
 public:
  Adder(const System& system, NodeTraffic* traffic) : s_(system), traffic_(traffic) {}

  void gpu_to_gpu(int a, int b, double bytes) {
    traffic_->gpu_out += bytes;
    along(s_.gpus[a], s_.gpus[b], bytes);
    if (nccl::peer_to_peer(s_, a, b)) return;
    const nccl::Node& sender = s_.graph[s_.gpus[a]];
    NodeTraffic::Link& load =
        traffic_->links[{sender.kind, sender.of_machine, sender.kind, sender.of_machine}];
    load.type = PathType::sys;
    load.gbps = nccl::shared_memory_gbps_of(s_, a);
    load.staged = true;
    load.bytes += bytes;
    traffic_->staged = true;
  }

  void copy(int a, int b, double bytes) {
    traffic_->gpu_out += bytes;
    if (s_.path(s_.gpus[a], s_.gpus[b]).type != PathType::nvb) {
      along(s_.gpus[a], s_.gpus[b], bytes);
    } else {
      const SystemVertex cpu = s_.cpus[static_cast<std::size_t>(s_.local_cpu(b))];
      along(s_.gpus[a], cpu, bytes);
      along(cpu, s_.gpus[b], bytes);
    }
    traffic_->staged = traffic_->staged || !nccl::peer_to_peer(s_, a, b);
  }

  void net_to_gpu(int net, int gpu, double bytes) { along(s_.nets[net], s_.gpus[gpu], bytes); }

  void gpu_to_net(int gpu, int net, double bytes) {
    traffic_->nic_out += bytes;
    along(s_.gpus[gpu], s_.nets[net], bytes);
  }

  void through_switch(double out, double in) {
    for (const SystemVertex gpu : s_.gpus) {
      traffic_->gpu_out += out;
      along(gpu, s_.nvs.front(), out);
      along(s_.nvs.front(), gpu, in);
    }
  }

 private:
  void along(SystemVertex from, SystemVertex to, double bytes) {
    const nccl::Path& path = s_.path(from, to);
    bool intel_bridge = false;  // costs a sixth more on PCIe
    if (path.type == PathType::phb && s_.graph[from].kind == NodeKind::gpu) {
      for (const int id : path.links) {
        const nccl::Node& node = s_.graph[s_.links[id].to];
        intel_bridge =
            intel_bridge || (node.kind == NodeKind::cpu && node.arch == nccl::CpuArch::x86 &&
                             node.vendor == nccl::CpuVendor::intel);
      }
    }
    for (const int id : path.links) {
      const nccl::FlatLink& link = s_.links[id];
      const nccl::Node& a = s_.graph[link.from];
      const nccl::Node& b = s_.graph[link.to];
      NodeTraffic::Link& load = traffic_->links[{a.kind, a.of_machine, b.kind, b.of_machine}];
      load.type = link.type;
      load.gbps = link.gbps;
      load.bytes += link.type == PathType::pix && intel_bridge ? bytes * 6 / 5 : bytes;
    }
  }

  const System& s_;
  NodeTraffic* traffic_;
};

// By the busiest node, in sizes. Of three nodes one is inner in one tree, with one child, and a
// leaf in the other.
double tree_sends(int nodes) { return nodes <= 2 ? 1.0 : nodes == 3 ? 1.5 : 2.0; }

}  // namespace

void add_copy(const System& system, int from, int to, double bytes, NodeTraffic* traffic) {
  Adder(system, traffic).copy(from, to, bytes);
}

double wire_factor(NcclProtocol protocol) {
  switch (protocol) {
    case NcclProtocol::ll: return 2.0;
    case NcclProtocol::ll128: return 128.0 / 120.0;
    case NcclProtocol::simple: return 1.0;
  }
  return 1.0;
}

double ring_volume(CollectiveKind kind, int ranks) {
  const double n = ranks;
  switch (kind) {
    case CollectiveKind::all_reduce: return 2 * (n - 1) / n;
    case CollectiveKind::all_gather:
    case CollectiveKind::reduce_scatter: return (n - 1) / n;
    case CollectiveKind::broadcast:
    case CollectiveKind::reduce: return ranks > 1 ? 1.0 : 0.0;
    case CollectiveKind::scatter:
    case CollectiveKind::gather: return (n - 1) / n;  // out of (into) the root
  }
  return 0;
}

void add_traffic(const System& system, const nccl::GraphResult& graph, int channels,
                 CollectiveKind kind, NcclAlgorithm algorithm, int ranks, int nodes,
                 NodeTraffic* traffic) {
  STEPCAST_ASSERT(channels >= 1 && channels <= static_cast<int>(graph.orders.size()),
                  "more channels than were found");
  Adder add(system, traffic);
  const double n = ranks;
  const bool nvls = algorithm == NcclAlgorithm::nvls || algorithm == NcclAlgorithm::nvls_tree;
  if (nvls) {
    const double gpus = static_cast<double>(system.gpus.size());
    const double share =
        std::min<double>(algorithm == NcclAlgorithm::nvls ? n : gpus, nccl::most_nvls_heads);
    const double out = kind == CollectiveKind::all_gather       ? 1 / share
                       : kind == CollectiveKind::reduce_scatter ? 1.0
                                                                : 1 + 1 / share;
    const double in = kind == CollectiveKind::all_gather       ? 1.0
                      : kind == CollectiveKind::reduce_scatter ? 1 / share
                                                               : 1 + 1 / share;
    add.through_switch(out, in);
    if (algorithm == NcclAlgorithm::nvls) return;
  }
  const double volume = ring_volume(kind, ranks) / channels;
  const double tree = tree_sends(nodes) / channels;
  for (int c = 0; c < channels; ++c) {
    const nccl::Channel& channel = graph.orders[c];
    const std::vector<int>& gpus = channel.gpus;
    const bool across = channel.nic_in >= 0;
    if (nvls) {
      add.net_to_gpu(channel.nic_in, gpus.front(), tree);
      add.gpu_to_net(gpus.front(), channel.nic_out, tree);
      continue;
    }
    if (algorithm != NcclAlgorithm::tree) {
      for (std::size_t i = 0; i + 1 < gpus.size(); ++i)
        add.gpu_to_gpu(gpus[i], gpus[i + 1], volume);
      if (across) {
        // PAT runs on the tree's channels, which enter and leave at the first GPU.
        add.net_to_gpu(channel.nic_in, gpus.front(), volume);
        add.gpu_to_net(gpus.back(), channel.nic_out, volume);
      } else {
        add.gpu_to_gpu(gpus.back(), gpus.front(), volume);
      }
      continue;
    }
    for (std::size_t i = 0; i + 1 < gpus.size(); ++i) {
      add.gpu_to_gpu(gpus[i], gpus[i + 1], 1.0 / channels);
      add.gpu_to_gpu(gpus[i + 1], gpus[i], 1.0 / channels);
    }
    if (!across) continue;
    const bool two = gpus.size() > 1 && graph.pattern != nccl::Pattern::tree;
    const int second = two ? gpus[1] : gpus[0];
    add.net_to_gpu(channel.nic_in, gpus[0], tree / 2);
    add.net_to_gpu(channel.nic_in, second, tree / 2);
    add.gpu_to_net(gpus[0], channel.nic_out, tree / 2);
    add.gpu_to_net(second, channel.nic_out, tree / 2);
  }
}

}  // namespace stepcast
