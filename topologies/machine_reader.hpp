#pragma once
// The parts of a machine's TOML, one function each; inside topologies/ only. machine.cpp calls them
// in the order of this header.

#include "base/toml.hpp"
#include "topologies/machine_builder.hpp"

namespace stepcast::machine_reader {

constexpr int max_devices = 1024;  // GPUs or NICs of a node; more is a typing error

// What [nic] says; count 0 where there is none.
struct NicPart {
  Device device;
  int count = 0;
  int ports_per_card = 1;
  int pcie_generation = 0;
  int pcie_width = 16;
};

// The NUMA nodes of [cpu] and the speed of the socket link between every two, GB/s a direction.
struct Cpus {
  std::vector<Vertex> vertices;
  double socket_gbps = 0;
};

void read_latencies(TomlTable& root, MachineBuilder& builder);                 // [latency_us]
Cpus read_cpus(TomlTable& root, bool pcie_p2p, MachineBuilder& builder);       // [cpu]
NicPart read_nic(TomlTable& root, const std::string& network);                 // [nic]
void read_pcie(TomlTable& root, const Gpu& gpu, int gpus, const NicPart& nic,  // [pcie]
               const Cpus& cpus, MachineBuilder& builder);
void read_nvlinks(TomlTable& root, const Gpu& gpu, int gpus, MachineBuilder& builder);  // [nvlink]

// [graph], which stands for all of the above: every device and link by itself.
Machine read_graph(TomlTable& graph, const Gpu& gpu, int gpus, bool pcie_p2p);

}  // namespace stepcast::machine_reader
