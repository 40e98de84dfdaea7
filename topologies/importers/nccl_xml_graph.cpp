#include "topologies/importers/nccl_xml_graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/letters.hpp"
#include "topologies/link_rates.hpp"

namespace stepcast::importing {
namespace {

// "00000000:0F:00.0" (as NVML writes it) and "0000:0f:00.0" (sysfs) are one place.
std::string bus_key(const std::string& bus) {
  const std::string key = lower(bus);
  const std::size_t domain = key.find(':');
  if (domain == std::string::npos || key.find(':', domain + 1) == std::string::npos) return key;
  return key.substr(std::min(key.find_first_not_of('0'), domain));
}

}  // namespace

Vertex NcclXmlGraph::add_cpu(Device device) {
  device.kind = DeviceKind::cpu;
  device.index = static_cast<int>(cpus.size());
  device.name = fmt::format("cpu{}", device.index);
  cpus.push_back(boost::add_vertex(std::move(device), machine.graph));
  return cpus.back();
}

Vertex NcclXmlGraph::add_switch(Vertex parent, int generation, int lanes) {
  Device device;
  device.kind = DeviceKind::pcie_switch;
  device.index = switches_++;
  device.name = fmt::format("pcie{}", device.index);
  const Vertex vertex = boost::add_vertex(std::move(device), machine.graph);
  connect_pcie(vertex, parent, generation, lanes);
  return vertex;
}

bool NcclXmlGraph::free_bus(const std::string& bus) const {
  return bus.empty() || of_bus_.count(bus_key(bus)) == 0;
}

Vertex NcclXmlGraph::add_gpu(Device device, const std::string& bus, Vertex parent, int generation,
                             int lanes) {
  device.kind = DeviceKind::gpu;
  const Vertex vertex = boost::add_vertex(std::move(device), machine.graph);
  gpus.push_back(vertex);
  of_bus_.emplace(bus_key(bus), vertex);
  connect_pcie(vertex, parent, generation, lanes);
  return vertex;
}

Vertex NcclXmlGraph::add_nic(Device device, Vertex parent, int generation, int lanes) {
  device.kind = DeviceKind::nic;
  nics.push_back(boost::add_vertex(std::move(device), machine.graph));
  connect_pcie(nics.back(), parent, generation, lanes);
  return nics.back();
}

Vertex NcclXmlGraph::add_virtual_nic(Device device, Vertex cpu) {
  device.kind = DeviceKind::nic;
  nics.push_back(boost::add_vertex(std::move(device), machine.graph));
  Link link;
  link.kind = LinkKind::pcie;
  link.gbps = 5000;
  link.latency_us = default_latency_us(LinkKind::pcie);
  boost::add_edge(nics.back(), cpu, link, machine.graph);
  return nics.back();
}

void NcclXmlGraph::add_c2c(Vertex gpu, Vertex cpu, int count, double gbps) {
  Link link;
  link.kind = LinkKind::c2c;
  link.count = count;
  link.gbps = gbps;
  link.latency_us = default_latency_us(LinkKind::c2c);
  boost::add_edge(gpu, cpu, link, machine.graph);
}

void NcclXmlGraph::add_nvlinks(Vertex gpu, const std::string& target, int count, FarEnd far_end) {
  nvlinks_.push_back({gpu, target, count, far_end});
}

void NcclXmlGraph::add_nvswitch() {
  const Vertex nvswitch = hub();
  for (const Vertex gpu : machine.gpus) connect_nvlink(gpu, nvswitch, machine.gpu.nvlinks);
}

void NcclXmlGraph::add_nvlinks_between_all() {
  const int count = static_cast<int>(machine.gpus.size());
  for (int a = 0; a < count; ++a) {
    for (int b = a + 1; b < count; ++b) {
      connect_nvlink(machine.gpus[a], machine.gpus[b], machine.gpu.nvlinks / (count - 1));
    }
  }
}

void NcclXmlGraph::finish() {
  join_nvlinks();
  join_cpus();
  number_devices();
}

Vertex NcclXmlGraph::hub() {
  Device device;
  device.kind = DeviceKind::nvswitch;
  device.name = "nvswitch0";
  return boost::add_vertex(std::move(device), machine.graph);
}

void NcclXmlGraph::connect_pcie(Vertex child, Vertex parent, int generation, int lanes) {
  Link link;
  link.kind = LinkKind::pcie;
  link.pcie_generation = generation;
  link.pcie_width = lanes;
  link.gbps = pcie_gbps(generation, lanes);
  link.latency_us = default_latency_us(LinkKind::pcie);
  boost::add_edge(child, parent, link, machine.graph);
}

void NcclXmlGraph::connect_nvlink(Vertex a, Vertex b, int count) {
  Link link;
  link.kind = LinkKind::nvlink;
  link.count = count;
  link.gbps = machine.gpu.nvlink_gbps * count;
  link.latency_us = default_latency_us(LinkKind::nvlink);
  boost::add_edge(a, b, link, machine.graph);
}

void NcclXmlGraph::join_nvlinks() {
  std::map<Vertex, int> to_switch;
  std::set<std::pair<Vertex, Vertex>> listed;
  const auto far_gpu = [&](const NvlinkEnd& end) {
    return end.far_end == FarEnd::nvswitch ? of_bus_.end() : of_bus_.find(bus_key(end.target));
  };
  for (const NvlinkEnd& end : nvlinks_) {
    if (const auto peer = far_gpu(end); peer != of_bus_.end())
      listed.insert({end.gpu, peer->second});
  }
  for (const NvlinkEnd& end : nvlinks_) {
    const auto peer = far_gpu(end);
    if (peer == of_bus_.end()) {
      if (end.far_end == FarEnd::device) continue;  // a GPU that takes no part, or a CPU of POWER
      to_switch[end.gpu] += end.count;
      guessed_nvswitch += end.far_end == FarEnd::unknown ? 1 : 0;
      continue;
    }
    const bool both = listed.count({peer->second, end.gpu}) > 0;
    if (both && end.gpu > peer->second) continue;  // both ends list the link: once
    one_sided += both ? 0 : 1;
    connect_nvlink(end.gpu, peer->second, end.count);
  }
  if (to_switch.empty()) return;
  const Vertex nvswitch = hub();
  for (const Vertex gpu : gpus) {
    if (to_switch.count(gpu)) connect_nvlink(gpu, nvswitch, to_switch[gpu]);
  }
}

void NcclXmlGraph::join_cpus() {  // the file has no links between CPUs; speed 0: not known
  for (std::size_t a = 0; a < cpus.size(); ++a) {
    for (std::size_t b = a + 1; b < cpus.size(); ++b) {
      Link link;
      link.kind = LinkKind::socket;
      link.latency_us = default_latency_us(LinkKind::socket);
      boost::add_edge(cpus[a], cpus[b], link, machine.graph);
    }
  }
}

// GPUs by their CUDA number where the file numbers all of them 0, 1, ...; else in file order.
void NcclXmlGraph::number_devices() {
  std::vector<Vertex> by_number(gpus.size(), gpus.front());
  std::vector<bool> seen(gpus.size(), false);
  bool numbered = true;
  for (const Vertex v : gpus) {
    const auto index = static_cast<std::size_t>(machine.graph[v].index);
    if (index >= gpus.size() || seen[index]) {
      numbered = false;
      break;
    }
    seen[index] = true;
    by_number[index] = v;
  }
  machine.gpus = numbered ? by_number : gpus;
  for (std::size_t i = 0; i < machine.gpus.size(); ++i) {
    Device& device = machine.graph[machine.gpus[i]];
    device.index = static_cast<int>(i);
    device.name = fmt::format("gpu{}", i);
  }
  machine.nics = nics;
  for (std::size_t i = 0; i < nics.size(); ++i) {
    Device& device = machine.graph[nics[i]];
    device.index = static_cast<int>(i);
    device.name = fmt::format("nic{}", i);
  }
}

}  // namespace stepcast::importing
