#include "topologies/machine_builder.hpp"

#include "base/error.hpp"
#include "topologies/link_rates.hpp"

namespace stepcast {

MachineBuilder::MachineBuilder(Gpu gpu) : latency_us_{} {
  machine_.gpu = std::move(gpu);
  for (const LinkKind kind : {LinkKind::nvlink, LinkKind::c2c, LinkKind::pcie, LinkKind::socket}) {
    set_latency_us(kind, default_latency_us(kind));
  }
}

void MachineBuilder::set_latency_us(LinkKind kind, double latency_us) {
  latency_us_[static_cast<std::size_t>(kind)] = latency_us;
}

Vertex MachineBuilder::add(Device device, DeviceKind kind, int index) {
  device.kind = kind;
  device.index = index;
  const bool is_switch = kind == DeviceKind::pcie_switch;
  device.name = (is_switch ? "pcie" : std::string(to_string(kind))) + std::to_string(index);
  return boost::add_vertex(device, machine_.graph);
}

void MachineBuilder::connect(Vertex a, Vertex b, Link link) {
  link.latency_us = latency_us_[static_cast<std::size_t>(link.kind)];
  boost::add_edge(a, b, link, machine_.graph);
}

void MachineBuilder::connect_pcie(Vertex child, Vertex parent, int generation, int width) {
  Link link;
  link.kind = LinkKind::pcie;
  link.gbps = pcie_gbps(generation, width);
  link.pcie_generation = generation;
  link.pcie_width = width;
  connect(child, parent, link);
}

Vertex MachineBuilder::add_cpu(Device cpu) {
  const int index = static_cast<int>(cpus_.size());
  cpu.numa_node = index;
  cpus_.push_back(add(std::move(cpu), DeviceKind::cpu, index));
  return cpus_.back();
}

Vertex MachineBuilder::add_pcie_switch(Vertex parent, int generation, int width) {
  const Vertex vertex = add({}, DeviceKind::pcie_switch, pcie_switches_++);
  cpu_of_[vertex] = cpu_above(parent);
  connect_pcie(vertex, parent, generation, width);
  return vertex;
}

Vertex MachineBuilder::cpu_above(Vertex parent) const {
  const auto found = cpu_of_.find(parent);
  return found == cpu_of_.end() ? parent : found->second;
}

Vertex MachineBuilder::add_gpu(int index, Vertex parent, int generation, int width) {
  STEPCAST_ASSERT(!has_gpu(index), "GPU index twice");
  const Gpu& gpu = machine_.gpu;
  Device device;
  device.gpudirect_rdma = gpu.gpudirect_rdma;
  const Vertex vertex = add(std::move(device), DeviceKind::gpu, index);
  gpus_[index] = vertex;
  if (gpu.c2c_links > 0) {  // to the CPU, also where its PCIe comes by a switch (GB300)
    Link link;
    link.kind = LinkKind::c2c;
    link.gbps = gpu.c2c_gbps;
    link.count = gpu.c2c_links;
    connect(vertex, cpu_above(parent), link);
  }
  connect_pcie(vertex, parent, generation, width);
  return vertex;
}

Vertex MachineBuilder::add_nic(int index, Vertex parent, Device nic, int generation, int width) {
  STEPCAST_ASSERT(!has_nic(index), "NIC index twice");
  const Vertex vertex = add(std::move(nic), DeviceKind::nic, index);
  nics_[index] = vertex;
  connect_pcie(vertex, parent, generation, width);
  return vertex;
}

int MachineBuilder::nvlinks_of(int gpu) const {
  const auto found = nvlinks_.find(gpu);
  return found == nvlinks_.end() ? 0 : found->second;
}

void MachineBuilder::add_nvswitch(int links_of_gpu) {
  const Vertex hub = add({}, DeviceKind::nvswitch, 0);
  for (const auto& [index, vertex] : gpus_) {
    Link link;
    link.kind = LinkKind::nvlink;
    link.count = links_of_gpu > 0 ? links_of_gpu : machine_.gpu.nvlinks;
    link.gbps = machine_.gpu.nvlink_gbps * link.count;
    connect(vertex, hub, link);
    nvlinks_[index] += link.count;
  }
}

void MachineBuilder::link_nvlinks(int gpu_a, int gpu_b, int links) {
  STEPCAST_ASSERT(has_gpu(gpu_a) && has_gpu(gpu_b) && gpu_a != gpu_b, "NVLinks of unknown GPUs");
  Link link;
  link.kind = LinkKind::nvlink;
  link.count = links;
  link.gbps = machine_.gpu.nvlink_gbps * links;
  connect(gpus_.at(gpu_a), gpus_.at(gpu_b), link);
  nvlinks_[gpu_a] += links;
  nvlinks_[gpu_b] += links;
}

Machine MachineBuilder::finish(double socket_gbps) {
  for (std::size_t a = 0; a < cpus_.size(); ++a) {
    for (std::size_t b = a + 1; b < cpus_.size(); ++b) {
      Link link;
      link.kind = LinkKind::socket;
      link.gbps = socket_gbps;
      connect(cpus_[a], cpus_[b], link);
    }
  }
  for (const auto& [index, vertex] : gpus_) {
    STEPCAST_ASSERT(index == static_cast<int>(machine_.gpus.size()), "gap in the GPU numbers");
    machine_.gpus.push_back(vertex);
  }
  for (const auto& [index, vertex] : nics_) {
    STEPCAST_ASSERT(index == static_cast<int>(machine_.nics.size()), "gap in the NIC numbers");
    machine_.nics.push_back(vertex);
  }
  return std::move(machine_);
}

bool Machine::has_nvswitch() const {
  for (const Vertex vertex : boost::make_iterator_range(boost::vertices(graph))) {
    if (graph[vertex].kind == DeviceKind::nvswitch) return true;
  }
  return false;
}

}  // namespace stepcast
