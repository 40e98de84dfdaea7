// Connections and the links under them: message_ways.hpp; chunks: collective_chunks.hpp; the trees
// between nodes: double_tree.hpp.
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
#include "sim/collectives/node_search.hpp"
#include "sim/forecast/collective_chunks.hpp"
#include "sim/forecast/double_tree.hpp"
#include "sim/forecast/message_ways.hpp"

namespace stepcast {
namespace {

using nccl::PathType;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

bool goes_as_ring(NcclAlgorithm a) { return a == NcclAlgorithm::ring || a == NcclAlgorithm::pat; }

}  // namespace

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
  std::map<std::pair<std::vector<int>, bool>, std::unique_ptr<NodeSearch>> searched;
  MessageWays ways;
  // Rings, trees and chains of calls that differ in their bytes alone.
  std::map<std::tuple<int, NcclAlgorithm, NcclProtocol, int>, Lowered> shapes;

  ChannelAt of;  // that is being lowered

  Impl(const Cluster& c, const CollectiveOptions& options,
       std::map<int, std::vector<BrokenLink>> broken_links)
      : cluster(c),
        constants(nccl::constants(options.nccl_version)),
        ways(c, std::move(broken_links)) {
    system_options.gpudirect_rdma = cluster.fabric.gpudirect_rdma;
    system_options.nic_gbps = cluster.fabric.nic_gbps;
    system_options.limits = options.environment.paths;
    if (cluster.fabric.kind == FabricKind::rail_only) system_options.limits.cross_nic = 0;
  }

  int nodes() const { return static_cast<int>(of.group->nodes.size()); }

  const NodeSearch& search(const RankGroup& on) {
    const bool across = on.nodes.size() > 1;
    std::unique_ptr<NodeSearch>& slot = searched[{on.gpus, across}];
    if (!slot) {
      system_options.across_nodes = across;
      slot = std::make_unique<NodeSearch>(constants, cluster.machine, on.gpus, system_options);
    }
    return *slot;
  }

  // The latencies are model.cpp's.
  Pace pace_of(const RankGroup& group, NcclAlgorithm a, NcclProtocol p) {
    const NodeSearch& on = search(group);
    const bool simple = p == NcclProtocol::simple;
    const int count = static_cast<int>(group.nodes.size());
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
    const NcclAlgorithm from = group.ranks() == count ? NcclAlgorithm::tree : a;
    const double nic = pace.graph->latency_inter_us;
    pace.within = 1e-6 * intra;
    pace.between = 1e-6 * (us(nccl::LinkClass::net, from) + (simple ? 2 * nic : nic));
    pace.within_gbps = pace.graph->bw_intra;
    // As NCCL's formula takes it.
    pace.between_gbps =
        count <= 2 && a != NcclAlgorithm::nvls_tree ? pace.graph->bw_intra : pace.graph->bw_inter;
    if (goes_as_ring(a)) pace.within_gbps = pace.between_gbps;
    if (nccl::is_placeholder(*pace.graph)) {  // the links alone set the pace
      pace.within_gbps = pace.between_gbps = nccl::local_gbps;
    }
    return pace;
  }

  MessageRing ring() {
    MessageRing made;
    const std::vector<int>& gpus = of.pace.graph->orders[at(of.channel)].gpus;
    const int last = static_cast<int>(gpus.size()) - 1;
    for (int k = 0; k < nodes(); ++k) {
      for (int i = 0; i < last; ++i) {
        made.connections.push_back(ways.within(of, k, gpus[at(i)], gpus[at(i + 1)], i));
      }
      made.connections.push_back(
          nodes() == 1 ? ways.within(of, k, gpus[at(last)], gpus[0], last)
                       : ways.between(of, k, gpus[at(last)], (k + 1) % nodes(), gpus[0]));
    }
    return made;
  }

  // Rank k * p + i is the i-th of the chain on the k-th node.
  MessageTree tree(bool second) {
    MessageTree made;
    const std::vector<int>& gpus = of.pace.graph->orders[at(of.channel)].gpus;
    const int p = static_cast<int>(gpus.size());
    for (int k = 0; k < nodes(); ++k) {
      const int above = tree_parent(k, nodes(), second);
      if (above < 0) {
        add_place(made, -1, -1, -1);
      } else {
        const int gpu = attached_to(k, above, second, p);
        add_place(made, above * p + gpu, ways.between(of, k, gpus[0], above, gpus[at(gpu)]),
                  ways.between(of, above, gpus[at(gpu)], k, gpus[0]));
      }
      for (int i = 1; i < p; ++i) {
        add_place(made, k * p + i - 1, ways.within(of, k, gpus[at(i)], gpus[at(i - 1)], 2 * i),
                  ways.within(of, k, gpus[at(i - 1)], gpus[at(i)], 2 * i + 1));
      }
    }
    return made;
  }

  // Place 2k is the head on the k-th node, 2k + 1 all GPUs below the switch.
  MessageTree switched_tree(bool second) {
    MessageTree made;
    const int head = of.pace.graph->orders[at(of.channel)].gpus.front();
    for (int k = 0; k < nodes(); ++k) {
      const int above = tree_parent(k, nodes(), second);
      if (above < 0) {
        add_place(made, -1, -1, -1);
      } else {
        add_place(made, 2 * above, ways.between(of, k, head, above, head),
                  ways.between(of, above, head, k, head));
      }
      add_place(made, 2 * k, ways.through_switch(of, k, head, false),
                ways.through_switch(of, k, head, true));
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
    if (p == 1 || of.pace.graph->pattern == nccl::Pattern::tree) return 0;
    if (of.pace.graph->pattern == nccl::Pattern::split_tree) return 1;
    for (int other = 0; other < k; ++other) {
      if (tree_parent(other, nodes(), second) == above) return 0;
    }
    return 1;
  }

  // ---- shapes: a call without its bytes
  const Lowered& shape_of(int communicator, const RankGroup& ranks, const LoweredCall& call) {
    of.communicator = communicator;
    of.algorithm = call.algorithm;
    of.group = &ranks;
    of.pace = pace_of(ranks, call.algorithm, call.protocol);
    const int found = of.pace.graph->channels;
    const int channels = call.most_channels > 0 ? std::min(call.most_channels, found) : found;
    const auto [slot, fresh] =
        shapes.try_emplace({communicator, call.algorithm, call.protocol, channels}, Lowered{});
    if (!fresh) return slot->second;
    Lowered& made = slot->second;
    made.collective.ranks = ranks.ranks();
    made.before =
        1e-6 *
        constants.base_latency_us[nccl::index_of(call.algorithm)][nccl::index_of(call.protocol)];
    for (of.channel = 0; of.channel < channels; ++of.channel) {
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

  void cut(MessageCollective& made, const LoweredCall& call) const {
    const double wire = wire_factor(call.protocol);
    made.bytes = call.bytes * wire;
    const ChunkRule chunks = ring_chunks(call.protocol);
    for (MessageRing& each : made.rings) {
      each.chunk_bytes = chunks.bytes * wire;
      each.window = chunks.window;
    }
    for (MessageTree& each : made.trees) {
      const double bytes = call.bytes * each.share;
      const int heads = static_cast<int>(of.group->gpus.size());
      each.chunk_bytes =
          wire * (call.algorithm == NcclAlgorithm::tree
                      ? tree_chunk(call.protocol, 2 * bytes, of.group->ranks(), nodes())
                  : call.algorithm == NcclAlgorithm::nvls ? nvls_chunk(bytes, heads)
                                                          : nvls_tree_chunk(bytes, heads, nodes()));
      each.window = message_slots;
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
      of.chains.push_back({{each.connections.begin(), each.connections.end() - 1},
                           each.share,
                           chunk,
                           message_slots});
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

const std::vector<MessageLink>& Lowering::links() const { return impl_->ways.links(); }
const std::vector<MessageConnection>& Lowering::connections() const {
  return impl_->ways.connections();
}

Lowering::Pace Lowering::pace(const RankGroup& group, NcclAlgorithm algorithm,
                              NcclProtocol protocol) {
  return impl_->pace_of(group, algorithm, protocol);
}

}  // namespace stepcast
