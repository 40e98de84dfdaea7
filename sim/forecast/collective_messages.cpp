// Connections: every hop of every channel, with the links of the node's graph that it crosses (each
// with NCCL's speed, shared by all that crosses it) and first of all the channel's own rate, so
// that a channel alone goes at what the search gave it. Between nodes: out by the channel's NIC,
// in by the next node's. The fabric between NICs does not block.
//
// Ring: one ring a channel, nodes in order, chunks of 2 MiB (4 slots of 512 KiB), two under way.
// Tree: two trees a channel with half of its bytes each, chunks of one slot; within a node a chain,
// between nodes the double binary tree: odd sizes shift the second, even ones mirror it. Both share
// the channel's rate; out of and into a node it is shared by all edges of the channel.
//
// Closed form: pipeline_times.hpp, on the loads that the fluid engine has of the links
// (link_load.hpp) for rings, on the trees' own edges for trees. It differs from NCCL's formula
// where that counts what no message does: NCCL has N-1 crossings a round where a message that
// starts just before one meets N; it charges every latency once, be it hidden or not; and its
// tree's first chunk is there at once.
//
// Example, 2 nodes of 8, ring: 30 steps, of which NCCL calls 2 inter-node. Messages that start on
// the last GPU of a node cross at step 1, 9, 17 and 25: four.
//
// Source: NCCL 2.28.9, src/graph/trees.cc, src/device/all_reduce.h, src/enqueue.cc.

#include "sim/forecast/collective_messages.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <tuple>

#include "base/error.hpp"
#include "sim/collectives/link_load.hpp"
#include "sim/collectives/nccl/constants.hpp"
#include "sim/collectives/nccl/link_speeds.hpp"
#include "sim/collectives/nccl/model.hpp"
#include "sim/collectives/nccl/paths.hpp"
#include "sim/collectives/nccl/search.hpp"
#include "sim/forecast/pipeline_times.hpp"

namespace stepcast {
namespace {

using nccl::NodeKind;
using nccl::PathType;
using nccl::SystemVertex;

constexpr double slot_bytes = 512 * 1024;  // NCCL_BUFFSIZE / NCCL_STEPS, protocol Simple
constexpr int slots = 8;                   // NCCL_STEPS
constexpr int ring_slots_a_chunk = 4;      // ALLREDUCE_CHUNKSTEPS and the others'
// How fast a run is, docs/engines.md: trees couple more links.
constexpr double ring_messages_a_second = 80e3, tree_messages_a_second = 20e3;

// GPUs of a node that are in one communicator, searched.
struct Node {
  Node(const nccl::Constants& constants, const Machine& machine, const std::vector<int>& gpus,
       const nccl::SystemOptions& options)
      : system(machine, gpus, options), result(nccl::search_graphs(constants, system)) {}
  nccl::System system;
  nccl::SearchResult result;
};

struct Group {
  std::vector<int> nodes;  // ascending
  std::vector<int> gpus;   // local, the same on each of them
};

std::vector<Group> groups_on(const Cluster& cluster, Mesh mesh, Axis axis) {
  const int size = mesh.size(axis);
  std::vector<Group> groups;
  for (int g = 0; g < mesh.world_size() / size; ++g) {
    std::map<int, std::vector<int>> of_node;
    for (int i = 0; i < size; ++i) {
      const int rank = axis == Axis::replicate ? i * mesh.shard + g : g * size + i;
      of_node[cluster.node_of(rank)].push_back(cluster.local_of(rank));
    }
    Group group;
    group.gpus = of_node.begin()->second;
    for (const auto& [node, gpus] : of_node) {
      group.nodes.push_back(node);
      if (gpus == group.gpus) continue;
      throw InputError(fmt::format(
          "the messages engine wants the same GPUs of a communicator on each of its nodes; node {} "
          "holds {}, node {} {} of {} ranks",
          group.nodes.front(), group.gpus.size(), node, gpus.size(), size));
    }
    groups.push_back(group);
  }
  return groups;
}

// One of the two trees between nodes: the parent of node k of n, -1 for the root.
int parent_in_first(int k, int n) {
  if (k == 0) return -1;
  const int bit = k & -k;
  const int up = (k ^ bit) | (bit << 1);
  return up < n ? up : k ^ bit;
}
int parent_between(int k, int n, bool second) {
  if (!second) return parent_in_first(k, n);
  if (n % 2 == 0) {
    const int up = parent_in_first(n - 1 - k, n);
    return up < 0 ? -1 : n - 1 - up;
  }
  const int up = parent_in_first((k + n - 1) % n, n);
  return up < 0 ? -1 : (up + 1) % n;
}

class Builder {
 public:
  Builder(const Cluster& cluster, const CollectiveQuestion& question,
          const CollectiveOptions& options)
      : cluster_(cluster), q_(question), constants_(nccl::constants(options.nccl_version)) {
    system_.gpudirect_rdma = cluster.fabric.gpudirect_rdma;
    system_.nic_gbps = cluster.fabric.nic_gbps;
    system_.limits = options.environment.paths;
    if (cluster.fabric.kind == FabricKind::rail_only) system_.limits.cross_nic = 0;
  }

  CollectiveMessages made(const std::vector<Group>& groups) {
    for (const Group& group : groups) add(group);
    double slowest = 0;  // seconds of the fullest link
    for (const auto& [node, traffic] : traffic_) {
      for (const auto& [place, link] : traffic.links) {
        slowest = std::max(slowest, link.bytes * q_.bytes / (link.gbps * 1e9));
      }
    }
    out_.slowest_link = slowest;
    out_.closed_form = out_.base + in_full(slowest);
    return std::move(out_);
  }

 private:
  bool tree() const { return q_.algorithm == NcclAlgorithm::tree; }
  int steps() const {
    return q_.kind == CollectiveKind::all_reduce ? 2 * (out_.ranks - 1) : out_.ranks - 1;
  }

  void add(const Group& group) {
    std::unique_ptr<Node>& slot = searched_[group.gpus];
    if (!slot) {
      system_.across_nodes = group.nodes.size() > 1;
      slot = std::make_unique<Node>(constants_, cluster_.machine, group.gpus, system_);
    }
    node_ = slot.get();
    group_ = &group;
    graph_ = &nccl::graph_of(node_->result, q_.algorithm);
    const int nodes = static_cast<int>(group.nodes.size());
    out_.nodes = nodes;
    out_.ranks = nodes * static_cast<int>(group.gpus.size());
    out_.channels = graph_->channels;
    out_.base = 1e-6 * constants_.base_latency_us[nccl::index_of(q_.algorithm)]
                                                 [nccl::index_of(NcclProtocol::simple)];
    set_latencies(nodes);
    intra_gbps_ = graph_->bw_intra;
    inter_gbps_ = nodes <= 2 ? graph_->bw_intra : graph_->bw_inter;  // as NCCL's formula takes it
    if (!tree()) intra_gbps_ = inter_gbps_;
    ++out_.communicators;
    MessageCollective of;
    of.ranks = out_.ranks;
    of.bytes = q_.bytes;
    of.op = q_.kind == CollectiveKind::all_gather       ? MessagesOp::all_gather
            : q_.kind == CollectiveKind::reduce_scatter ? MessagesOp::reduce_scatter
                                                        : MessagesOp::all_reduce;
    for (int c = 0; c < graph_->channels; ++c) {
      channel_ = c;
      if (tree()) {
        of.trees.push_back(tree_of(false));
        of.trees.push_back(tree_of(true));
      } else {
        of.rings.push_back(ring());
      }
    }
    out_.input.collectives.push_back(std::move(of));
    for (const int node : group.nodes) {
      add_traffic(node_->system, *graph_, graph_->channels, q_.kind, q_.algorithm, out_.ranks,
                  nodes, &traffic_[node]);
    }
  }

  // model.cpp's, for Simple.
  void set_latencies(int nodes) {
    const auto us = [&](nccl::LinkClass link, NcclAlgorithm a) {
      return constants_.hardware_latency_us[nccl::index_of(link)][nccl::index_of(a)]
                                           [nccl::index_of(NcclProtocol::simple)];
    };
    const bool nvlink = graph_->type_intra == PathType::nvl;
    double intra = us(nvlink ? nccl::LinkClass::nvlink : nccl::LinkClass::pci, q_.algorithm);
    const bool amd = node_->system.arch() == nccl::CpuArch::x86 &&
                     node_->system.vendor() == nccl::CpuVendor::amd;
    if (nodes > 1 && !tree()) {
      intra = std::max(
          intra, 3 * (amd ? constants_.network_overhead_amd_us : constants_.network_overhead_us));
    }
    const NcclAlgorithm from = out_.ranks == nodes ? NcclAlgorithm::tree : q_.algorithm;
    intra_ = 1e-6 * intra;
    inter_ = 1e-6 * (us(nccl::LinkClass::net, from) + 2 * graph_->latency_inter_us);
  }

  const nccl::Channel& channel() const {
    return graph_->orders[static_cast<std::size_t>(channel_)];
  }

  // ---- links
  using LinkKey = std::tuple<int, NodeTraffic::Place>;  // node, from and to
  void add_link(int node, const NodeTraffic::Place& place, double gbps, std::vector<int>& way) {
    const auto [found, fresh] =
        known_.emplace(LinkKey{node, place}, static_cast<int>(out_.input.links.size()));
    if (fresh) out_.input.links.push_back({gbps});
    MessageLink& link = out_.input.links[static_cast<std::size_t>(found->second)];
    link.gbps = std::min(link.gbps, gbps);
    way.push_back(found->second);
  }
  // A channel's own rate at `what` (a number of the caller's) of a node of this communicator.
  void add_rate(int node, int what, double gbps, std::vector<int>& way) {
    const auto [found, fresh] =
        rates_.emplace(std::make_tuple(out_.communicators, channel_, node, what),
                       static_cast<int>(out_.input.links.size()));
    if (fresh) out_.input.links.push_back({gbps});
    way.push_back(found->second);
  }
  void along(int node, SystemVertex from, SystemVertex to, std::vector<int>& way) {
    const nccl::System& s = node_->system;
    const nccl::Path& path = s.path(from, to);
    bool intel_bridge = false;  // costs a sixth more on PCIe
    if (path.type == PathType::phb && s.graph[from].kind == NodeKind::gpu) {
      for (const int id : path.links) {
        const nccl::Node& n = s.graph[s.links[id].to];
        intel_bridge = intel_bridge || (n.kind == NodeKind::cpu && n.arch == nccl::CpuArch::x86 &&
                                        n.vendor == nccl::CpuVendor::intel);
      }
    }
    for (const int id : path.links) {
      const nccl::FlatLink& link = s.links[id];
      const nccl::Node& a = s.graph[link.from];
      const nccl::Node& b = s.graph[link.to];
      const bool dearer = intel_bridge && link.type == PathType::pix;
      add_link(node, {a.kind, a.of_machine, b.kind, b.of_machine},
               dearer ? link.gbps * 5.0 / 6 : link.gbps, way);
    }
  }

  // ---- connections
  int connection(std::vector<int> way, Seconds latency) {
    out_.input.connections.push_back({std::move(way), latency});
    return static_cast<int>(out_.input.connections.size()) - 1;
  }
  // Between GPUs (indices of the system) of the k-th node.
  int within(int k, int a, int b, int rate) {
    const nccl::System& s = node_->system;
    const int node = group_->nodes[static_cast<std::size_t>(k)];
    std::vector<int> way;
    add_rate(node, rate, intra_gbps_, way);
    along(node, s.gpus[a], s.gpus[b], way);
    if (!nccl::peer_to_peer(s, a, b)) {
      const nccl::Node& sender = s.graph[s.gpus[a]];
      add_link(node, {sender.kind, sender.of_machine, sender.kind, sender.of_machine},
               nccl::shared_memory_gbps, way);
    }
    return connection(std::move(way), intra_);
  }
  // From GPU a of the k-th node to GPU b of the m-th.
  int between(int k, int a, int m, int b) {
    const nccl::System& s = node_->system;
    const int from = group_->nodes[static_cast<std::size_t>(k)];
    const int to = group_->nodes[static_cast<std::size_t>(m)];
    std::vector<int> way;
    add_rate(from, leaving, inter_gbps_, way);
    along(from, s.gpus[a], s.nets[channel().nic_out], way);
    along(to, s.nets[channel().nic_in], s.gpus[b], way);
    add_rate(to, entering, inter_gbps_, way);
    return connection(std::move(way), inter_);
  }

  MessageRing ring() {
    MessageRing made;
    made.share = 1.0 / graph_->channels;
    made.chunk_bytes = ring_slots_a_chunk * slot_bytes;
    made.window = slots / ring_slots_a_chunk;
    const std::vector<int>& gpus = channel().gpus;
    const int last = static_cast<int>(gpus.size()) - 1;
    for (int k = 0; k < out_.nodes; ++k) {
      for (int i = 0; i < last; ++i) {
        made.connections.push_back(within(k, gpus[at(i)], gpus[at(i + 1)], i));
      }
      made.connections.push_back(out_.nodes == 1
                                     ? within(k, gpus[at(last)], gpus[0], last)
                                     : between(k, gpus[at(last)], (k + 1) % out_.nodes, gpus[0]));
    }
    return made;
  }

  // Rank k * p + i is the i-th of the chain on the k-th node.
  MessageTree tree_of(bool second) {
    MessageTree made;
    made.share = 0.5 / graph_->channels;
    made.chunk_bytes = slot_bytes;
    made.window = slots;
    const std::vector<int>& gpus = channel().gpus;
    const int p = static_cast<int>(gpus.size());
    for (int k = 0; k < out_.nodes; ++k) {
      const int above = parent_between(k, out_.nodes, second);
      if (above < 0) {
        made.parent.push_back(-1);
        made.up.push_back(-1);
        made.down.push_back(-1);
      } else {
        const int gpu = attached_to(k, above, second, p);
        made.parent.push_back(above * p + gpu);
        made.up.push_back(between(k, gpus[0], above, gpus[at(gpu)]));
        made.down.push_back(between(above, gpus[at(gpu)], k, gpus[0]));
      }
      for (int i = 1; i < p; ++i) {
        made.parent.push_back(k * p + i - 1);
        made.up.push_back(within(k, gpus[at(i)], gpus[at(i - 1)], 2 * i));
        made.down.push_back(within(k, gpus[at(i - 1)], gpus[at(i)], 2 * i + 1));
      }
    }
    return made;
  }

  // Place in the chain of node `above` that its child k hangs on: the first child on GPU 1 in
  // balanced and split trees, the second one too in split trees.
  int attached_to(int k, int above, bool second, int p) const {
    if (p == 1 || graph_->pattern == nccl::Pattern::tree) return 0;
    if (graph_->pattern == nccl::Pattern::split_tree) return 1;
    for (int other = 0; other < k; ++other) {
      if (parent_between(other, out_.nodes, second) == above) return 0;
    }
    return 1;
  }

  // ---- closed form
  Seconds in_full(Seconds slowest_link) const {
    if (tree()) return tree_seconds(out_.input);
    const double channel_bytes = q_.bytes / out_.channels;
    const double each = ring_volume(q_.kind, out_.ranks) * channel_bytes;
    const int p = out_.ranks / out_.nodes;
    RingPace pace;
    pace.steps = steps();
    pace.crossings = out_.nodes == 1 ? 0 : (steps() + p - 1) / p;
    pace.within = intra_;
    pace.between = inter_;
    pace.bytes = channel_bytes / out_.ranks;
    pace.chunk_bytes = ring_slots_a_chunk * slot_bytes;
    pace.window = slots / ring_slots_a_chunk;
    return ring_seconds(pace, std::max(slowest_link, each / (inter_gbps_ * 1e9)));
  }

  static std::size_t at(int index) { return static_cast<std::size_t>(index); }

  // Rates' names beside the hops of a chain.
  static constexpr int leaving = -1, entering = -2;

  const Cluster& cluster_;
  const CollectiveQuestion& q_;
  const nccl::Constants& constants_;
  nccl::SystemOptions system_;
  std::map<std::vector<int>, std::unique_ptr<Node>> searched_;
  std::map<LinkKey, int> known_;
  std::map<std::tuple<int, int, int, int>, int> rates_;
  std::map<int, NodeTraffic> traffic_;  // by node
  const Node* node_ = nullptr;          // of the communicator that is being added
  const Group* group_ = nullptr;
  const nccl::GraphResult* graph_ = nullptr;
  int channel_ = 0;
  double intra_gbps_ = 0, inter_gbps_ = 0;
  Seconds intra_ = 0, inter_ = 0;
  CollectiveMessages out_;
};

}  // namespace

CollectiveMessages collective_messages(const Cluster& cluster, Mesh mesh, Axis axis,
                                       const CollectiveQuestion& question,
                                       const CollectiveOptions& options) {
  const bool ring = question.algorithm == NcclAlgorithm::ring;
  const bool tree = question.algorithm == NcclAlgorithm::tree;
  const bool reduced = question.kind == CollectiveKind::all_reduce;
  const bool halves = question.kind == CollectiveKind::all_gather ||
                      question.kind == CollectiveKind::reduce_scatter;
  if (!(ring && (reduced || halves)) && !(tree && reduced)) {
    throw InputError(
        fmt::format("the messages engine has no {} by {}; it has all_reduce by Ring "
                    "and Tree, all_gather and reduce_scatter by Ring",
                    to_string(question.kind), to_string(question.algorithm)));
  }
  if (cluster.nodes > 1 && cluster.fabric.oversubscription > 1) {
    throw InputError(
        fmt::format("the messages engine knows no uplinks; oversubscription is {:g}, accepted: 1",
                    cluster.fabric.oversubscription));
  }
  STEPCAST_ASSERT(mesh.size(axis) > 1 && question.bytes > 0, "a collective of nothing");
  return Builder(cluster, question, options).made(groups_on(cluster, mesh, axis));
}

double messages_wall_seconds(const MessagesInput& input) {
  bool trees = false;
  for (const MessageCollective& of : input.collectives) trees = trees || !of.trees.empty();
  return static_cast<double>(count_messages(input)) /
         (trees ? tree_messages_a_second : ring_messages_a_second);
}

}  // namespace stepcast
