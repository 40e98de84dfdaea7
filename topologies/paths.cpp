// Dijkstra's algorithm on the pair (hops, width): fewer hops are better, and at equal hops the
// wider path is. Extending two paths by the same link never turns their order round, which is what
// the algorithm needs. A machine has some 30 vertices and 60 links, so a search takes microseconds.

#include "topologies/paths.hpp"

#include <algorithm>
#include <boost/graph/dijkstra_shortest_paths.hpp>
#include <boost/graph/filtered_graph.hpp>
#include <functional>
#include <limits>

#include "base/error.hpp"

namespace stepcast {
namespace {

using Edge = boost::graph_traits<MachineGraph>::edge_descriptor;

struct Distance {
  int hops = 0;
  double gbps = 0;  // of the narrowest link so far
};

constexpr int unreachable = std::numeric_limits<int>::max();

struct Better {
  bool operator()(const Distance& a, const Distance& b) const {
    return a.hops < b.hops || (a.hops == b.hops && a.gbps > b.gbps);
  }
};

struct Extend {
  Distance operator()(const Distance& path, double link_gbps) const {
    const int hops = path.hops == unreachable ? unreachable : path.hops + 1;
    return {hops, std::min(path.gbps, link_gbps)};
  }
};

// The links a path takes: the widest between each two neighbours.
std::vector<Link> links_of(const MachineGraph& graph, const std::vector<Vertex>& vertices,
                           Transit transit) {
  std::vector<Link> links;
  for (std::size_t i = 0; i + 1 < vertices.size(); ++i) {
    const Link* widest = nullptr;
    for (const Edge edge : boost::make_iterator_range(boost::out_edges(vertices[i], graph))) {
      if (boost::target(edge, graph) != vertices[i + 1]) continue;
      const Link& link = graph[edge];
      if (transit == Transit::nvlink_gpus && link.kind != LinkKind::nvlink) continue;
      if (widest == nullptr || link.gbps > widest->gbps) widest = &link;
    }
    STEPCAST_ASSERT(widest != nullptr, "a path over a link that is not there");
    links.push_back(*widest);
  }
  return links;
}

PathType classify(const MachineGraph& graph, const std::vector<Vertex>& vertices,
                  const std::vector<Link>& links) {
  if (links.empty()) return PathType::same;
  const auto count = [&links](LinkKind kind) {
    return std::count_if(links.begin(), links.end(),
                         [kind](const Link& link) { return link.kind == kind; });
  };
  // Devices strictly between the two ends.
  const auto inside = [&graph, &vertices](DeviceKind kind) {
    return std::count_if(vertices.begin() + 1, vertices.end() - 1,
                         [&graph, kind](Vertex v) { return graph[v].kind == kind; });
  };
  const auto all = static_cast<std::ptrdiff_t>(links.size());
  if (count(LinkKind::nvlink) == all) {
    return inside(DeviceKind::gpu) > 0 ? PathType::nvlink_relay : PathType::nvlink;
  }
  if (count(LinkKind::socket) > 0) return PathType::socket;
  if (count(LinkKind::c2c) == all) return PathType::c2c;
  if (count(LinkKind::c2c) > 0) return PathType::c2c_pcie;
  const bool ends_at_cpu = graph[vertices.front()].kind == DeviceKind::cpu ||
                           graph[vertices.back()].kind == DeviceKind::cpu;
  if (ends_at_cpu || inside(DeviceKind::cpu) > 0) return PathType::host_bridge;
  return inside(DeviceKind::pcie_switch) > 1 ? PathType::pcie_switches : PathType::pcie_switch;
}

}  // namespace

std::optional<Path> find_path(const Machine& machine, Vertex from, Vertex to, Transit transit) {
  const MachineGraph& graph = machine.graph;
  STEPCAST_ASSERT(from < boost::num_vertices(graph) && to < boost::num_vertices(graph),
                  "path between unknown devices");
  const std::function<bool(Vertex)> may_pass = [&graph, from, to, transit](Vertex vertex) {
    if (vertex == from || vertex == to) return true;
    const DeviceKind kind = graph[vertex].kind;
    return kind != DeviceKind::nic && (kind != DeviceKind::gpu || transit == Transit::nvlink_gpus);
  };
  const std::function<bool(Edge)> may_use = [&graph, transit](Edge edge) {
    return transit == Transit::no_gpu || graph[edge].kind == LinkKind::nvlink;
  };
  const boost::filtered_graph<MachineGraph, std::function<bool(Edge)>, std::function<bool(Vertex)>>
      usable(graph, may_use, may_pass);

  constexpr double infinity = std::numeric_limits<double>::infinity();
  std::vector<Vertex> predecessor(boost::num_vertices(graph));
  std::vector<Distance> distance(boost::num_vertices(graph));
  const auto index = boost::get(boost::vertex_index, graph);
  boost::dijkstra_shortest_paths(
      usable, from,
      boost::predecessor_map(boost::make_iterator_property_map(predecessor.begin(), index))
          .distance_map(boost::make_iterator_property_map(distance.begin(), index))
          .weight_map(boost::get(&Link::gbps, graph))
          .vertex_index_map(index)
          .distance_compare(Better())
          .distance_combine(Extend())
          .distance_inf(Distance{unreachable, 0})
          .distance_zero(Distance{0, infinity}));
  if (distance[to].hops == unreachable) return std::nullopt;

  Path path;
  for (Vertex at = to; at != from; at = predecessor[at]) path.vertices.push_back(at);
  path.vertices.push_back(from);
  std::reverse(path.vertices.begin(), path.vertices.end());
  const std::vector<Link> links = links_of(graph, path.vertices, transit);
  path.gbps = distance[to].gbps;
  for (const Link& link : links) path.latency_us += link.latency_us;
  path.type = classify(graph, path.vertices, links);
  return path;
}

std::vector<int> nearest_nics(const Machine& machine, int gpu) {
  STEPCAST_ASSERT(gpu >= 0 && gpu < static_cast<int>(machine.gpus.size()), "unknown GPU");
  const auto nearer = [](const Path& a, const Path& b) {
    return a.type < b.type || (a.type == b.type && a.gbps > b.gbps);
  };
  std::vector<int> nearest;
  std::optional<Path> best;
  for (std::size_t i = 0; i < machine.nics.size(); ++i) {
    const std::optional<Path> path =
        find_path(machine, machine.gpus[static_cast<std::size_t>(gpu)], machine.nics[i]);
    if (!path || (best && nearer(*best, *path))) continue;
    if (!best || nearer(*path, *best)) {
      nearest.clear();
      best = path;
    }
    nearest.push_back(static_cast<int>(i));
  }
  return nearest;
}

std::string_view to_string(PathType type) {
  switch (type) {
    case PathType::same: return "LOC";
    case PathType::nvlink: return "NVL";
    case PathType::nvlink_relay: return "NVB";
    case PathType::c2c: return "C2C";
    case PathType::pcie_switch: return "PIX";
    case PathType::pcie_switches: return "PXB";
    case PathType::c2c_pcie: return "P2C";
    case PathType::host_bridge: return "PHB";
    case PathType::socket: return "SYS";
  }
  return "";
}

}  // namespace stepcast
