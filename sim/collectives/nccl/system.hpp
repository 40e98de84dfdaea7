#pragma once
// The machine as NCCL sees it: a directed Boost.Graph of GPUs, PCIe switches, the NVSwitch, CPUs,
// NICs and network ports, with NCCL's speeds, and the path of every GPU, NIC port, CPU and switch
// to every other. Input of the graph search; also where the loads of a channel are counted.
//
//   System system(machine, {0, 1, 2, 3}, {.across_nodes = true});
//   system.path(system.gpus[0], system.nets[2]).type   // PathType::pxn
//
// Only the GPUs of the communicator are in it; on one node the NICs are left out, as NCCL does.
// Building one for 8 GPUs takes some 50 us. Tested by golden/xml through the search.

#include <boost/graph/adjacency_list.hpp>
#include <cstdint>
#include <vector>

#include "sim/collectives/nccl/types.hpp"
#include "topologies/topology.hpp"

namespace stepcast::nccl {

enum class NodeKind : std::uint8_t { gpu, pci, nvs, cpu, nic, net };

struct Node {
  NodeKind kind = NodeKind::gpu;
  int index = 0;          // among its kind, in the system
  int device = 0;         // the machine's GPU or NIC index
  Vertex of_machine = 0;  // what it is in the machine; a NIC and its port are one there
  // gpu
  int compute_capability = 0;
  // gpu, net
  bool gdr = true;  // takes part in GPUDirect RDMA
  // cpu
  CpuArch arch = CpuArch::x86;
  CpuVendor vendor = CpuVendor::intel;
  bool p2p = true;  // GPUs may reach each other through this host bridge
  // net
  double gbps = 0;
  std::uint64_t asic = 0;
  int port = 0;
  double latency_us = 0;
  int local_gpu = -1;  // index of the GPU that prefers this port
};

struct SystemLink {
  int id = -1;                    // into links
  PathType type = PathType::pix;  // nvl, c2c, pix (any PCIe), sys, net
  double gbps = 0;
};

using SystemGraph =
    boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, Node, SystemLink>;
using SystemVertex = boost::graph_traits<SystemGraph>::vertex_descriptor;

// A directed link, flat for the search.
struct FlatLink {
  SystemVertex from = 0;
  SystemVertex to = 0;
  PathType type = PathType::pix;
  float gbps = 0;
  int reverse = -1;  // id of the link back
};

struct Path {
  std::vector<int> links;  // ids, in the direction of travel
  float gbps = 0;
  PathType type = PathType::dis;

  int hops() const { return static_cast<int>(links.size()); }
};

struct SystemOptions {
  bool across_nodes = false;
  bool gpudirect_rdma = true;
  double nic_gbps = 0;  // of every NIC, GB/s; 0: as the machine says
  PathLimits limits = {};
};

class System {
 public:
  // local_gpus: indices of machine.gpus.
  System(const Machine& machine, const std::vector<int>& local_gpus, SystemOptions options);
  System(const System&) = delete;
  System& operator=(const System&) = delete;

  SystemGraph graph;
  std::vector<FlatLink> links;
  std::vector<SystemVertex> gpus, nets, cpus, nvs;  // by Node::index
  PathLimits limits;
  double max_gbps = 0;    // the best single path of a GPU to a peer (one node) or a NIC (several)
  double total_gbps = 0;  // the most a GPU moves over all its links

  const Path& path(SystemVertex from, SystemVertex to) const { return paths_[to][from]; }
  Path& path(SystemVertex from, SystemVertex to) { return paths_[to][from]; }

  int min_compute_capability() const;
  CpuArch arch() const;  // of the first CPU, as NCCL does
  CpuVendor vendor() const;
  bool has_nvswitch() const { return !nvs.empty(); }

  // The index of the CPU with the fewest hops; -1 without one.
  int local_cpu(int gpu) const;

 private:
  friend class SystemBuilder;
  friend void find_paths(System& system);

  std::vector<std::vector<Path>> paths_;  // [to][from]; empty where nothing starts or ends
};

}  // namespace stepcast::nccl
