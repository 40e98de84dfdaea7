#pragma once
// Builds the graph of a machine piece by piece; used by the reader of machine TOML and by whatever
// else describes a node (a topology dump, a test).
//
//   MachineBuilder builder(gpu);
//   Vertex cpu = builder.add_cpu({.cpu_vendor = "GenuineIntel", ...});
//   Vertex pcie = builder.add_pcie_switch(cpu, 5, 16);
//   builder.add_gpu(0, pcie, 5, 16);
//   builder.add_nvswitch();
//   Machine machine = builder.finish(socket_gbps);
//
// Who calls it has checked the input: a broken rule here is our own mistake and asserts.

#include <array>
#include <map>

#include "topologies/topology.hpp"

namespace stepcast {

class MachineBuilder {
 public:
  explicit MachineBuilder(Gpu gpu);

  void set_latency_us(LinkKind kind, double latency_us);

  Vertex add_cpu(Device cpu);  // kind, name and index are set here
  Vertex add_pcie_switch(Vertex parent, int generation, int width);
  Vertex add_gpu(int index, Vertex parent, int generation, int width);
  Vertex add_nic(int index, Vertex parent, Device nic, int generation, int width);

  // The NVSwitches of a machine are one vertex: they are one non-blocking crossbar to the GPUs, and
  // NCCL merges them too. Every GPU joins with all its NVLinks.
  void add_nvswitch(int links_of_gpu = 0);  // 0: all that a GPU has
  void link_nvlinks(int gpu_a, int gpu_b, int links);

  bool has_gpu(int index) const { return gpus_.count(index) > 0; }
  bool has_nic(int index) const { return nics_.count(index) > 0; }
  int nvlinks_of(int gpu) const;  // already used
  std::size_t cpu_count() const { return cpus_.size(); }

  // Joins every two CPUs by a socket link of this speed (GB/s a direction) and hands the machine
  // over. GPUs and NICs must be numbered 0, 1, 2, ... by now.
  Machine finish(double socket_gbps);

 private:
  Vertex add(Device device, DeviceKind kind, int index);
  void connect(Vertex a, Vertex b, Link link);
  void connect_pcie(Vertex child, Vertex parent, int generation, int width);
  Vertex cpu_above(Vertex parent) const;  // the parent itself, or the CPU above a switch

  Machine machine_;
  std::array<double, 4> latency_us_;  // by LinkKind
  std::map<int, Vertex> gpus_, nics_;
  std::map<int, int> nvlinks_;  // GPU: links used
  std::vector<Vertex> cpus_;
  std::map<Vertex, Vertex> cpu_of_;  // of PCIe switches
  int pcie_switches_ = 0;
};

}  // namespace stepcast
