// NCCL writes what its search found (NCCL_GRAPH_DUMP_FILE) and reads the same format in its place
// (NCCL_GRAPH_FILE). Of each graph it knows by id, 0 rings, 1 trees, 3 NVLS, it takes channels,
// speeds, path types, crossing and latency as they stand; a graph that is missing, or has no
// channels, is searched. The speeds are trusted: a file with half of them makes everything that is
// bound by bandwidth take twice as long, whatever the links could do.
//
// The file counts for every communicator of the job, as it does for every communicator of a process
// in NCCL: one with other GPUs than the channels visit cannot be set up there, and is an error
// here. So is a communicator over several nodes whose channels name no NICs. On one node the NICs
// of a file are not looked at. A file with crossnic="1" under NCCL_CROSS_NIC=0 is passed over.
//
// Example: <graph id="0" pattern="4" crossnic="0" nchannels="1" speedintra="20" speedinter="20"
// typeintra="NVL" typeinter="PIX" samechannels="1"><channel><gpu dev="0"/><gpu
// dev="0x1"/></channel> is one ring of GPUs 0 and 1 at 20 GB/s.
//
// Source: NCCL 2.28.9, src/graph/search.cc (ncclTopoCompute, ncclTopoGetGraphFromXml) and the user
// guide, NCCL_GRAPH_FILE. Stricter than NCCL, which takes wrong counts and speeds of 0 as they are.
// Tested by tests/unit/collectives/graph_file_test.cpp.

#include "sim/collectives/nccl/graph_file.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/toml.hpp"
#include "topologies/importers/nccl_xml.hpp"

namespace stepcast::nccl {
namespace {

constexpr std::size_t most_channels = 32;  // what a search finds at most; NCCL runs twice as many

InputError error(const std::string& file, int line, const char* key, const std::string& what) {
  return InputError({file, line, key}, what);
}

PathType type_of(const std::string& file, const DumpedGraph& graph, const char* key,
                 const std::string& name) {
  std::vector<std::string> names;
  for (int t = 0; t <= static_cast<int>(PathType::dis); ++t) {
    const auto type = static_cast<PathType>(t);
    if (to_string(type) == name) return type;
    names.emplace_back(to_string(type));
  }
  throw not_accepted({file, graph.line, key}, name, names);
}

bool fits(int id, int pattern) {
  if (id == 0) return pattern == static_cast<int>(Pattern::ring);
  if (id == 3) return pattern == static_cast<int>(Pattern::nvls);
  return pattern >= static_cast<int>(Pattern::balanced_tree) &&
         pattern <= static_cast<int>(Pattern::tree);
}

GivenGraph given(const DumpedGraph& graph, const std::string& file) {
  if (!fits(graph.id, graph.pattern)) {
    throw error(
        file, graph.line, "graph.pattern",
        fmt::format("{} is not accepted for graph {}; accepted: {}", graph.pattern, graph.id,
                    graph.id == 0   ? "4 (ring)"
                    : graph.id == 3 ? "5 (NVLS)"
                                    : "1, 2 or 3 (trees)"));
  }
  if (graph.channels.size() > most_channels) {
    throw error(
        file, graph.line, "graph",
        fmt::format("has {} channels; accepted: up to {}", graph.channels.size(), most_channels));
  }
  if (graph.declared_channels >= 0 &&
      graph.declared_channels != static_cast<int>(graph.channels.size())) {
    throw error(
        file, graph.line, "graph.nchannels",
        fmt::format("is {}, but the graph has {}", graph.declared_channels, graph.channels.size()));
  }
  for (const auto& [key, gbps] : {std::pair{"graph.speedintra", graph.gbps_intra},
                                  std::pair{"graph.speedinter", graph.gbps_inter}}) {
    if (!(gbps > 0)) {
      throw error(file, graph.line, key, "is missing or 0; accepted: GB/s of a channel, above 0");
    }
  }
  GivenGraph out;
  out.id = graph.id;
  GraphResult& result = out.result;
  result.pattern = static_cast<Pattern>(graph.pattern);
  result.channels = static_cast<int>(graph.channels.size());
  result.bw_intra = graph.gbps_intra;
  result.bw_inter = graph.gbps_inter;
  result.type_intra = type_of(file, graph, "graph.typeintra", graph.type_intra);
  result.type_inter = type_of(file, graph, "graph.typeinter", graph.type_inter);
  result.same_channels = graph.same_channels;
  result.cross_nic = graph.cross_nic;
  result.latency_inter_us = graph.latency_inter_us;
  for (const DumpedGraph::Channel& channel : graph.channels) {
    out.channels.push_back({channel.line, channel.gpus, channel.nics});
  }
  return out;
}

// The index among `vertices` of the device with this number; -1 without it.
int index_of(const System& system, const std::vector<SystemVertex>& vertices, int number) {
  for (std::size_t i = 0; i < vertices.size(); ++i) {
    if (system.graph[vertices[i]].device == number) return static_cast<int>(i);
  }
  return -1;
}

std::string numbers(const System& system, const std::vector<SystemVertex>& vertices) {
  std::string text;
  for (const SystemVertex v : vertices) {
    text += (text.empty() ? "" : ", ") + std::to_string(system.graph[v].device);
  }
  return text;
}

Channel channel_on(const System& system, const std::string& file, const GivenGraph::Channel& given,
                   bool head_alone) {
  Channel channel;
  for (const int number : given.gpus) {
    const int gpu = index_of(system, system.gpus, number);
    if (gpu < 0) {
      throw error(file, given.line, "gpu.dev",
                  fmt::format("GPU {} is not in the communicator; accepted: {} (NCCL_GRAPH_FILE "
                              "counts for every communicator)",
                              number, numbers(system, system.gpus)));
    }
    if (std::find(channel.gpus.begin(), channel.gpus.end(), gpu) != channel.gpus.end()) {
      throw error(file, given.line, "gpu.dev", fmt::format("GPU {} is named twice", number));
    }
    channel.gpus.push_back(gpu);
  }
  if (head_alone ? channel.gpus.empty() : channel.gpus.size() != system.gpus.size()) {
    throw error(
        file, given.line, "channel",
        fmt::format("names {} GPUs of a communicator of GPUs {}; accepted: {}", channel.gpus.size(),
                    numbers(system, system.gpus), head_alone ? "its head first" : "each once"));
  }
  if (head_alone) channel.gpus.resize(1);
  if (system.nets.empty()) return channel;
  if (given.nics.size() != 2) {
    throw error(
        file, given.line, "channel",
        fmt::format("names {} NICs; accepted: 2, of entry and of exit, for the communicator "
                    "is on several nodes",
                    given.nics.size()));
  }
  int* const slots[] = {&channel.nic_in, &channel.nic_out};
  for (std::size_t i = 0; i < 2; ++i) {
    *slots[i] = index_of(system, system.nets, given.nics[i]);
    if (*slots[i] < 0) {
      throw error(file, given.line, "net.dev",
                  fmt::format("NIC {} is not on the machine; accepted: {}", given.nics[i],
                              numbers(system, system.nets)));
    }
  }
  return channel;
}

}  // namespace

GraphFile parse_graph_file(const std::string& text, const std::string& file) {
  GraphFile out;
  out.file = file;
  for (const DumpedGraph& graph : read_nccl_graph(text, file)) {
    if (graph.id != 0 && graph.id != 1 && graph.id != 3) continue;  // CollNet, not modelled
    for (const GivenGraph& earlier : out.graphs) {
      if (earlier.id != graph.id) continue;
      throw error(file, graph.line, "graph.id", fmt::format("{} is there twice", graph.id));
    }
    if (!graph.channels.empty()) out.graphs.push_back(given(graph, file));
  }
  if (out.graphs.empty()) {
    throw error(file, 0, "", "has no channels of rings (graph 0), trees (1) or NVLS (3)");
  }
  return out;
}

GraphFile read_graph_file(const std::string& path) {
  return parse_graph_file(read_file(path, 16ll << 20), path);
}

std::optional<GraphResult> given_graph(const System& system, Pattern pattern) {
  const GraphFile& file = system.limits.graphs;
  const int id = pattern == Pattern::ring ? 0 : pattern == Pattern::nvls ? 3 : 1;
  for (const GivenGraph& given : file.graphs) {
    if (given.id != id) continue;
    if (system.limits.cross_nic == 0 && given.result.cross_nic == 1) continue;
    GraphResult result = given.result;
    for (const GivenGraph::Channel& channel : given.channels) {
      result.orders.push_back(channel_on(system, file.file, channel, pattern == Pattern::nvls));
    }
    return result;
  }
  return std::nullopt;
}

}  // namespace stepcast::nccl
