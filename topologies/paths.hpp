#pragma once
// Routes inside a machine, by Boost.Graph: the fewest hops, and among those the widest.
//
//   Path path = *find_path(machine, machine.gpus[0], machine.nics[3]);
//   path.gbps        the slowest link on the way, GB/s a direction
//   to_string(path.type)   "PIX", "SYS", ... as NCCL and nvidia-smi name them
//
// Data does not pass through a GPU or a NIC on its way, unless the caller asks for NVLink relays.

#include <optional>
#include <string_view>
#include <vector>

#include "topologies/topology.hpp"

namespace stepcast {

// Best first.
enum class PathType : std::uint8_t {
  same,           // LOC: the device itself
  nvlink,         // NVL: NVLinks, direct or by a switch
  nvlink_relay,   // NVB: NVLinks through another GPU
  c2c,            // C2C: Grace Hopper's own link between CPU and GPU
  pcie_switch,    // PIX: one PCIe switch
  pcie_switches,  // PXB: several PCIe switches, no CPU
  c2c_pcie,       // P2C: GPU - CPU over C2C, then PCIe
  host_bridge,    // PHB: through a CPU
  socket,         // SYS: through the link between two CPUs
};

struct Path {
  std::vector<Vertex> vertices;  // from the first device to the last
  PathType type = PathType::same;
  double gbps = 0;        // of the narrowest link; infinite for a device to itself
  double latency_us = 0;  // sum over the links

  int hops() const { return static_cast<int>(vertices.size()) - 1; }
};

enum class Transit : std::uint8_t {
  no_gpu,       // as the hardware routes
  nvlink_gpus,  // over NVLinks only, with GPUs passing data on
};

// None when there is no way at all.
std::optional<Path> find_path(const Machine& machine, Vertex from, Vertex to,
                              Transit transit = Transit::no_gpu);

// The indices of the NICs nearest to GPU `gpu`: of the best path type, then the widest.
std::vector<int> nearest_nics(const Machine& machine, int gpu);

std::string_view to_string(PathType type);  // "NVL", "PIX", ...

}  // namespace stepcast
