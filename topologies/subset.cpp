#include "topologies/subset.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/error.hpp"

namespace stepcast {

Machine with_gpus(const Machine& machine, const std::vector<int>& gpus) {
  const std::size_t present = machine.gpus.size();
  std::vector<bool> kept(present, false);
  for (const int gpu : gpus) {
    if (gpu < 0 || static_cast<std::size_t>(gpu) >= present) {
      throw InputError(
          fmt::format("GPU {} is not in {}; accepted: 0 to {}", gpu, machine.name, present - 1));
    }
    if (kept[static_cast<std::size_t>(gpu)]) {
      throw InputError(fmt::format("GPU {} is named twice; accepted: every GPU once", gpu));
    }
    kept[static_cast<std::size_t>(gpu)] = true;
  }
  if (gpus.empty()) throw InputError("no GPU is named; accepted: at least one");

  Machine part = machine;
  part.graph = MachineGraph();
  part.gpus.clear();
  part.nics.clear();
  std::vector<std::optional<Vertex>> moved(boost::num_vertices(machine.graph));
  for (const Vertex old : boost::make_iterator_range(boost::vertices(machine.graph))) {
    const Device& device = machine.graph[old];
    if (device.kind == DeviceKind::gpu && !kept[static_cast<std::size_t>(device.index)]) continue;
    moved[old] = boost::add_vertex(device, part.graph);
  }
  for (const auto edge : boost::make_iterator_range(boost::edges(machine.graph))) {
    const std::optional<Vertex> a = moved[boost::source(edge, machine.graph)];
    const std::optional<Vertex> b = moved[boost::target(edge, machine.graph)];
    if (a && b) boost::add_edge(*a, *b, machine.graph[edge], part.graph);
  }
  for (std::size_t i = 0; i < present; ++i) {
    if (!kept[i]) continue;
    const Vertex vertex = *moved[machine.gpus[i]];
    part.graph[vertex].index = static_cast<int>(part.gpus.size());
    part.gpus.push_back(vertex);
  }
  for (const Vertex nic : machine.nics) part.nics.push_back(*moved[nic]);
  return part;
}

Machine used_node(const Cluster& cluster) {
  std::vector<int> gpus(static_cast<std::size_t>(cluster.gpus_per_node));
  std::iota(gpus.begin(), gpus.end(), 0);
  return with_gpus(cluster.machine, gpus);
}

}  // namespace stepcast
