// Connections: every hop of every channel, with the links of the node's graph that it crosses (each
// with NCCL's speed, shared by all that crosses it) and first of all the channel's own rate, so
// that a channel alone goes at what the search gave it. Between nodes: out by the channel's NIC,
// in by the next node's. The fabric between NICs does not block.
//
// Ring: one ring a channel, nodes in order, chunks of 2 MiB (4 slots of 512 KiB), two under way; a
// broadcast or reduce is a chain of chunks along it. LL and LL128 have one slot a chunk, eight
// under way, and more bytes on the wire. Tree: two trees a channel with half of its bytes each,
// chunks of one slot; within a node a chain, between nodes the double binary tree: odd sizes shift
// the second, even ones mirror it. Both share the channel's rate; out of and into a node it is
// shared by all edges of the channel. NVLS: for each head two connections. One reduces: out of all
// GPUs, through the switch, into the head. One copies: out of the head into all GPUs. An all-reduce
// is the one and then the other, chunk by chunk, so all of a node but the head are one place of a
// tree of two; an all-gather only copies, a reduce-scatter only reduces. NVLSTree puts double trees
// between the nodes' heads. PAT, which aggregates what a ring sends one by one, goes as a ring.
//
// Example, 2 nodes of 8, ring: 30 steps, of which NCCL calls 2 inter-node. Messages that start on
// the last GPU of a node cross at step 1, 9, 17 and 25: four.
//
// Source: NCCL 2.28.9, src/graph/trees.cc, src/device/all_reduce.h, src/enqueue.cc.

#include "sim/forecast/collective_lowering.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "base/error.hpp"
#include "sim/collectives/link_load.hpp"
#include "sim/collectives/nccl/constants.hpp"
#include "sim/collectives/nccl/link_speeds.hpp"
#include "sim/collectives/nccl/model.hpp"
#include "sim/collectives/nccl/paths.hpp"
#include "sim/collectives/nccl/search.hpp"

namespace stepcast {
namespace {

using nccl::NodeKind;
using nccl::PathType;
using nccl::SystemVertex;

constexpr double kib = 1024;
constexpr int slots = 8;  // NCCL_STEPS
// Names of a channel's rates beside those of the hops of a chain.
constexpr int leaving = -1, entering = -2;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

// Data of one slot: NCCL_BUFFSIZE / NCCL_STEPS; the flags of LL and LL128 come on top.
double slot_bytes(NcclProtocol protocol) {
  switch (protocol) {
    case NcclProtocol::ll: return 32 * kib;
    case NcclProtocol::ll128: return 562.5 * kib;
    case NcclProtocol::simple: return 512 * kib;
  }
  return 512 * kib;
}

// What NCCL shrinks chunks to. `bytes`: of the channel.
double tree_chunk(NcclProtocol protocol, double bytes, int ranks, int nodes) {
  double chunk = slot_bytes(protocol);
  if (protocol != NcclProtocol::ll128) return chunk;
  const double local = static_cast<double>(ranks) / nodes;
  const double steps = 1 + std::floor(std::log2(nodes)) + 0.1 * local;
  while (bytes / chunk < 64 * steps / local && chunk > 128 * kib) chunk /= 2;
  while (bytes / chunk < 16 * steps / local && chunk > 32 * kib) chunk /= 2;
  return chunk;
}

double nvls_chunk(double bytes, int heads) {
  double chunk = 128 * kib;
  if (bytes < 64 * heads * chunk) chunk = 64 * kib;
  if (bytes < 8 * heads * chunk) chunk = 32 * kib;
  if (bytes < 2 * heads * chunk) chunk = 16 * kib;
  return chunk;
}

double nvls_tree_chunk(double bytes, int heads, int nodes) {
  double chunk = (nodes >= 4 ? 64 : 128) * kib;
  if (bytes < 4 * heads * chunk) chunk = std::min(chunk, 64 * kib);
  if (bytes < heads * chunk) chunk = 32 * kib;
  return chunk;
}

// GPUs of a node that are in one communicator, searched.
struct Node {
  Node(const nccl::Constants& constants, const Machine& machine, const std::vector<int>& gpus,
       const nccl::SystemOptions& options)
      : system(machine, gpus, options), result(nccl::search_graphs(constants, system)) {}
  nccl::System system;
  nccl::SearchResult result;
};

bool goes_as_ring(NcclAlgorithm a) { return a == NcclAlgorithm::ring || a == NcclAlgorithm::pat; }

int parent_in_first(int k, int n) {
  if (k == 0) return -1;
  const int bit = k & -k;
  const int up = (k ^ bit) | (bit << 1);
  return up < n ? up : k ^ bit;
}

}  // namespace

int tree_parent(int k, int n, bool second) {
  if (!second) return parent_in_first(k, n);
  if (n % 2 == 0) {
    const int up = parent_in_first(n - 1 - k, n);
    return up < 0 ? -1 : n - 1 - up;
  }
  const int up = parent_in_first((k + n - 1) % n, n);
  return up < 0 ? -1 : (up + 1) % n;
}

ChunkRule ring_chunks(NcclProtocol protocol) {
  const int slots_a_chunk = protocol == NcclProtocol::simple ? 4 : 1;
  return {slots_a_chunk * slot_bytes(protocol), slots / slots_a_chunk};
}

RankGroup group_of(const Cluster& cluster, Mesh mesh, Axis axis, int rank) {
  const int size = mesh.size(axis);
  const int first = axis == Axis::replicate ? rank % mesh.shard : rank / size * size;
  const int stride = axis == Axis::replicate ? mesh.shard : 1;
  std::map<int, std::vector<int>> of_node;
  for (int i = 0; i < size; ++i) {
    const int member = first + i * stride;
    of_node[cluster.node_of(member)].push_back(cluster.local_of(member));
  }
  RankGroup group;
  group.gpus = of_node.begin()->second;
  for (const auto& [node, gpus] : of_node) {
    group.nodes.push_back(node);
    if (gpus == group.gpus) continue;
    throw InputError(fmt::format(
        "the messages engine wants the same GPUs of a communicator on each of its nodes; node {} "
        "holds {}, node {} {} of {} ranks",
        group.nodes.front(), group.gpus.size(), node, gpus.size(), size));
  }
  return group;
}

struct Lowering::Impl {
  const Cluster& cluster;
  const nccl::Constants& constants;
  nccl::SystemOptions system_options;
  std::map<int, std::vector<BrokenLink>> broken;
  std::map<std::pair<std::vector<int>, bool>, std::unique_ptr<Node>> searched;
  std::vector<MessageLink> links;
  std::vector<MessageConnection> connections;
  std::map<std::tuple<int, NodeTraffic::Place>, int> known_links;  // by node
  std::map<std::tuple<int, int, int, int>, int>
      rates;  // communicator and graph, channel, node, what
  // Rings, trees and chains of calls that differ in their bytes alone.
  std::map<std::tuple<int, NcclAlgorithm, NcclProtocol, int>, Lowered> shapes;

  // Of the communicator that is being lowered.
  int communicator = 0;
  NcclAlgorithm algorithm = NcclAlgorithm::ring;
  const RankGroup* group = nullptr;
  const Node* node = nullptr;
  Pace at_pace;
  int channel = 0;

  Impl(const Cluster& c, const CollectiveOptions& options,
       std::map<int, std::vector<BrokenLink>> broken_links)
      : cluster(c),
        constants(nccl::constants(options.nccl_version)),
        broken(std::move(broken_links)) {
    system_options.gpudirect_rdma = cluster.fabric.gpudirect_rdma;
    system_options.nic_gbps = cluster.fabric.nic_gbps;
    system_options.limits = options.environment.paths;
    if (cluster.fabric.kind == FabricKind::rail_only) system_options.limits.cross_nic = 0;
  }

  int nodes() const { return static_cast<int>(group->nodes.size()); }

  const Node& search(const RankGroup& of) {
    const bool across = of.nodes.size() > 1;
    std::unique_ptr<Node>& slot = searched[{of.gpus, across}];
    if (!slot) {
      system_options.across_nodes = across;
      slot = std::make_unique<Node>(constants, cluster.machine, of.gpus, system_options);
    }
    return *slot;
  }

  // The latencies are model.cpp's.
  Pace pace_of(const RankGroup& of, NcclAlgorithm a, NcclProtocol p) {
    const Node& on = search(of);
    const bool simple = p == NcclProtocol::simple;
    const int count = static_cast<int>(of.nodes.size());
    const auto us = [&](nccl::LinkClass link, NcclAlgorithm of_row) {
      return constants
          .hardware_latency_us[nccl::index_of(link)][nccl::index_of(of_row)][nccl::index_of(p)];
    };
    Pace pace;
    pace.system = &on.system;
    pace.graph = &nccl::graph_of(on.result, a);
    const bool nvlink = pace.graph->type_intra == PathType::nvl;
    double intra = us(nvlink ? nccl::LinkClass::nvlink : nccl::LinkClass::pci, a);
    const bool amd =
        on.system.arch() == nccl::CpuArch::x86 && on.system.vendor() == nccl::CpuVendor::amd;
    if (count > 1 && goes_as_ring(a)) {
      const double post = amd ? constants.network_overhead_amd_us : constants.network_overhead_us;
      intra = std::max(intra, simple ? 3 * post : post);
    }
    const NcclAlgorithm from = of.ranks() == count ? NcclAlgorithm::tree : a;
    const double nic = pace.graph->latency_inter_us;
    pace.within = 1e-6 * intra;
    pace.between = 1e-6 * (us(nccl::LinkClass::net, from) + (simple ? 2 * nic : nic));
    pace.within_gbps = pace.graph->bw_intra;
    // As NCCL's formula takes it.
    pace.between_gbps =
        count <= 2 && a != NcclAlgorithm::nvls_tree ? pace.graph->bw_intra : pace.graph->bw_inter;
    if (goes_as_ring(a)) pace.within_gbps = pace.between_gbps;
    return pace;
  }

  // The channel on a node, whose broken NICs it avoids.
  nccl::Channel channel_on(int of_node) const {
    const auto found = broken.find(of_node);
    if (found == broken.end()) return at_pace.graph->orders[at(channel)];
    nccl::GraphResult one;
    one.orders = {at_pace.graph->orders[at(channel)]};
    reroute(node->system, found->second, &one);
    return one.orders.front();
  }

  // ---- links
  double left_of(int of_node, const NodeTraffic::Place& place, PathType type) const {
    const auto found = broken.find(of_node);
    if (found == broken.end()) return 1;
    NodeTraffic one;
    one.links[place] = {type, 1, 0};
    slow_down(cluster.machine, found->second, &one);
    return one.links[place].gbps;
  }

  void add_link(int of_node, const NodeTraffic::Place& place, PathType type, double gbps,
                std::vector<int>& way) {
    const auto [found, fresh] =
        known_links.emplace(std::tuple(of_node, place), static_cast<int>(links.size()));
    const double speed = gbps * left_of(of_node, place, type);
    if (fresh) links.push_back({speed});
    MessageLink& link = links[at(found->second)];
    link.gbps = std::min(link.gbps, speed);
    way.push_back(found->second);
  }
  // A channel's own rate at `what` (a number of the caller's) of a node of this communicator.
  void add_rate(int of_node, int what, double gbps, std::vector<int>& way) {
    const int of_graph = 16 * communicator + static_cast<int>(algorithm);
    const auto [found, fresh] =
        rates.emplace(std::tuple(of_graph, channel, of_node, what), static_cast<int>(links.size()));
    if (fresh) links.push_back({gbps});
    way.push_back(found->second);
  }
  void along(int of_node, SystemVertex from, SystemVertex to, std::vector<int>& way) {
    const nccl::System& s = node->system;
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

  // ---- connections
  int connection(std::vector<int> way, Seconds latency) {
    connections.push_back({std::move(way), latency});
    return static_cast<int>(connections.size()) - 1;
  }
  // Between GPUs (indices of the system) of the k-th node.
  int within(int k, int a, int b, int rate) {
    const nccl::System& s = node->system;
    const int of_node = group->nodes[at(k)];
    std::vector<int> way;
    add_rate(of_node, rate, at_pace.within_gbps, way);
    along(of_node, s.gpus[at(a)], s.gpus[at(b)], way);
    if (!nccl::peer_to_peer(s, a, b)) {
      const nccl::Node& sender = s.graph[s.gpus[at(a)]];
      add_link(of_node, {sender.kind, sender.of_machine, sender.kind, sender.of_machine},
               PathType::sys, nccl::shared_memory_gbps, way);
    }
    return connection(std::move(way), at_pace.within);
  }
  // From GPU a of the k-th node to GPU b of the m-th.
  int between(int k, int a, int m, int b) {
    const nccl::System& s = node->system;
    const int from = group->nodes[at(k)];
    const int to = group->nodes[at(m)];
    std::vector<int> way;
    add_rate(from, leaving, at_pace.between_gbps, way);
    along(from, s.gpus[at(a)], s.nets[at(channel_on(from).nic_out)], way);
    along(to, s.nets[at(channel_on(to).nic_in)], s.gpus[at(b)], way);
    add_rate(to, entering, at_pace.between_gbps, way);
    return connection(std::move(way), at_pace.between);
  }
  // Through the switch of the k-th node: from all into the head, or from the head into all.
  int through_switch(int k, int head, bool copies) {
    const nccl::System& s = node->system;
    const int of_node = group->nodes[at(k)];
    std::vector<int> way;
    add_rate(of_node, copies ? 1 : 0, at_pace.within_gbps, way);
    const SystemVertex hub = s.nvs.front();
    for (const SystemVertex gpu : s.gpus) {
      if (copies) {
        along(of_node, hub, gpu, way);
      } else {
        along(of_node, gpu, hub, way);
      }
    }
    if (copies) {
      along(of_node, s.gpus[at(head)], hub, way);
    } else {
      along(of_node, hub, s.gpus[at(head)], way);
    }
    return connection(std::move(way), at_pace.within / 2);
  }

  MessageRing ring() {
    MessageRing made;
    const std::vector<int>& gpus = at_pace.graph->orders[at(channel)].gpus;
    const int last = static_cast<int>(gpus.size()) - 1;
    for (int k = 0; k < nodes(); ++k) {
      for (int i = 0; i < last; ++i) {
        made.connections.push_back(within(k, gpus[at(i)], gpus[at(i + 1)], i));
      }
      made.connections.push_back(nodes() == 1
                                     ? within(k, gpus[at(last)], gpus[0], last)
                                     : between(k, gpus[at(last)], (k + 1) % nodes(), gpus[0]));
    }
    return made;
  }

  // Rank k * p + i is the i-th of the chain on the k-th node.
  MessageTree tree(bool second) {
    MessageTree made;
    const std::vector<int>& gpus = at_pace.graph->orders[at(channel)].gpus;
    const int p = static_cast<int>(gpus.size());
    for (int k = 0; k < nodes(); ++k) {
      const int above = tree_parent(k, nodes(), second);
      if (above < 0) {
        add_place(made, -1, -1, -1);
      } else {
        const int gpu = attached_to(k, above, second, p);
        add_place(made, above * p + gpu, between(k, gpus[0], above, gpus[at(gpu)]),
                  between(above, gpus[at(gpu)], k, gpus[0]));
      }
      for (int i = 1; i < p; ++i) {
        add_place(made, k * p + i - 1, within(k, gpus[at(i)], gpus[at(i - 1)], 2 * i),
                  within(k, gpus[at(i - 1)], gpus[at(i)], 2 * i + 1));
      }
    }
    return made;
  }

  // Place 2k is the head on the k-th node, 2k + 1 all GPUs below the switch.
  MessageTree switched_tree(bool second) {
    MessageTree made;
    const int head = at_pace.graph->orders[at(channel)].gpus.front();
    for (int k = 0; k < nodes(); ++k) {
      const int above = tree_parent(k, nodes(), second);
      if (above < 0) {
        add_place(made, -1, -1, -1);
      } else {
        add_place(made, 2 * above, between(k, head, above, head), between(above, head, k, head));
      }
      add_place(made, 2 * k, through_switch(k, head, false), through_switch(k, head, true));
    }
    return made;
  }

  static void add_place(MessageTree& tree, int parent, int up, int down) {
    tree.parent.push_back(parent);
    tree.up.push_back(up);
    tree.down.push_back(down);
  }

  // Place in the chain of node `above` that its child k hangs on: the first child on GPU 1 in
  // balanced and split trees, the second one too in split trees.
  int attached_to(int k, int above, bool second, int p) const {
    if (p == 1 || at_pace.graph->pattern == nccl::Pattern::tree) return 0;
    if (at_pace.graph->pattern == nccl::Pattern::split_tree) return 1;
    for (int other = 0; other < k; ++other) {
      if (tree_parent(other, nodes(), second) == above) return 0;
    }
    return 1;
  }

  // ---- shapes: a call without its bytes
  const Lowered& shape_of(int of, const RankGroup& ranks, const LoweredCall& call) {
    communicator = of;
    algorithm = call.algorithm;
    group = &ranks;
    node = &search(ranks);
    at_pace = pace_of(ranks, call.algorithm, call.protocol);
    const int found = at_pace.graph->channels;
    const int channels = call.most_channels > 0 ? std::min(call.most_channels, found) : found;
    const auto [slot, fresh] =
        shapes.try_emplace({of, call.algorithm, call.protocol, channels}, Lowered{});
    if (!fresh) return slot->second;
    Lowered& made = slot->second;
    made.collective.ranks = ranks.ranks();
    made.before =
        1e-6 *
        constants.base_latency_us[nccl::index_of(call.algorithm)][nccl::index_of(call.protocol)];
    for (channel = 0; channel < channels; ++channel) {
      if (goes_as_ring(call.algorithm)) {
        made.collective.rings.push_back(ring());
        made.collective.rings.back().share = 1.0 / channels;
        continue;
      }
      const bool switched = call.algorithm != NcclAlgorithm::tree;
      const int trees = switched && nodes() == 1 ? 1 : 2;
      for (int t = 0; t < trees; ++t) {
        made.collective.trees.push_back(switched ? switched_tree(t == 1) : tree(t == 1));
        made.collective.trees.back().share = 1.0 / (trees * channels);
      }
    }
    return made;
  }

  void cut(MessageCollective& of, const LoweredCall& call) const {
    const double wire = wire_factor(call.protocol);
    of.bytes = call.bytes * wire;
    const ChunkRule chunks = ring_chunks(call.protocol);
    for (MessageRing& each : of.rings) {
      each.chunk_bytes = chunks.bytes * wire;
      each.window = chunks.window;
    }
    for (MessageTree& each : of.trees) {
      const double bytes = call.bytes * each.share;
      const int heads = static_cast<int>(group->gpus.size());
      each.chunk_bytes =
          wire * (call.algorithm == NcclAlgorithm::tree
                      ? tree_chunk(call.protocol, 2 * bytes, group->ranks(), nodes())
                  : call.algorithm == NcclAlgorithm::nvls ? nvls_chunk(bytes, heads)
                                                          : nvls_tree_chunk(bytes, heads, nodes()));
      each.window = slots;
    }
  }

  // What of an all-reduce's shape the other kinds use.
  static void keep_half(MessageCollective& of, const LoweredCall& call) {
    const bool copies = call.kind == CollectiveKind::all_gather;
    for (const MessageTree& each : of.trees) {
      of.chains.push_back({{copies ? each.down.back() : each.up.back()},
                           each.share,
                           each.chunk_bytes,
                           each.window});
    }
    of.trees.clear();
    if (call.kind != CollectiveKind::broadcast && call.kind != CollectiveKind::reduce) return;
    const double chunk = slot_bytes(call.protocol) * wire_factor(call.protocol);
    for (const MessageRing& each : of.rings) {
      of.chains.push_back(
          {{each.connections.begin(), each.connections.end() - 1}, each.share, chunk, slots});
    }
    of.rings.clear();
  }
};

Lowering::Lowering(const Cluster& cluster, const CollectiveOptions& options,
                   std::map<int, std::vector<BrokenLink>> broken)
    : impl_(std::make_unique<Impl>(cluster, options, std::move(broken))) {}

Lowering::~Lowering() = default;

Lowered Lowering::lower(int communicator, const RankGroup& group, const LoweredCall& call) {
  Lowered made = impl_->shape_of(communicator, group, call);
  made.collective.op = call.kind == CollectiveKind::all_gather       ? MessagesOp::all_gather
                       : call.kind == CollectiveKind::reduce_scatter ? MessagesOp::reduce_scatter
                                                                     : MessagesOp::all_reduce;
  impl_->cut(made.collective, call);
  if (call.kind != CollectiveKind::all_reduce) Impl::keep_half(made.collective, call);
  return made;
}

const std::vector<MessageLink>& Lowering::links() const { return impl_->links; }
const std::vector<MessageConnection>& Lowering::connections() const { return impl_->connections; }

Lowering::Pace Lowering::pace(const RankGroup& group, NcclAlgorithm algorithm,
                              NcclProtocol protocol) {
  return impl_->pace_of(group, algorithm, protocol);
}

}  // namespace stepcast
