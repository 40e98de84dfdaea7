#pragma once
// Text for people: `stepcast show machine NAME`, `stepcast show gpu NAME`.

#include <string>
#include <string_view>
#include <vector>

#include "topologies/topology.hpp"

namespace stepcast {

// Links of a machine that are alike: of one kind, between devices of the same kinds, as fast.
struct LinkGroup {
  int count = 0;
  DeviceKind a = DeviceKind::gpu, b = DeviceKind::gpu;  // in the order of DeviceKind
  Link link;
};
std::vector<LinkGroup> link_groups(const Machine& machine);

// The host of a machine: its last CPU stands for all, null where there is none.
struct Host {
  const Device* cpu = nullptr;  // of `machine`
  int numa_nodes = 0;
};
Host host_of(const Machine& machine);

// "NV12", "PIX", "SYS" as nvidia-smi topo prints it; "X" of a GPU to itself, "-" without a way.
// NVLinks that only a relay GPU connects are shown by the PCIe route between the two, as there.
std::string path_name(const Machine& machine, Vertex a, Vertex b);

// Where the figures of a group ("memory", "dense_tflops") of a GPU come from; "" for another group.
std::string source_of(const Gpu& gpu, std::string_view group);

// Figures of a GPU, each group with its source.
std::string describe(const Gpu& gpu);
// Host, GPUs, NICs, a table of links, who reaches whom how, bisection, sources.
std::string describe(const Machine& machine);
// One paragraph: nodes, ranks, fabric, what the network gives.
std::string describe(const Cluster& cluster);

}  // namespace stepcast
