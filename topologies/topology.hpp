#pragma once
// What it runs on. A Machine is one node type: a Boost.Graph of GPUs, NVSwitches, PCIe switches,
// CPUs and NICs. A Cluster is a number of such nodes on a fabric, with the GPUs that are used.
//
//   Cluster cluster = make_cluster(load_machine("dgx-h100"), {.nodes = 16});
//
// Speeds on links are what the hardware moves in one direction (GB/s = 1e9 B/s, payload), each with
// its source in the catalog; NCCL's own idea of a speed is derived in sim/collectives from the link
// counts and generations that stand here too. Tested by tests/unit/topologies.

#include <array>
#include <boost/graph/adjacency_list.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/provenance.hpp"
#include "base/units.hpp"

namespace stepcast {

// ---- GPU --------------------------------------------------------------------------------------
struct Gpu {
  std::string name;       // catalog key: "h100-sxm"
  std::string full_name;  // "NVIDIA H100 SXM5 80GB"
  int compute_capability = 0;  // 90 for 9.0
  int sm_count = 0;
  double boost_mhz = 0;
  Bytes memory_bytes = 0;       // HBM or GDDR, usable as the driver reports it
  double memory_gbps = 0;       // GB/s
  double l2_mib = 0;
  double power_watts = 0;       // board limit
  int nvlinks = 0;              // links of the part (0: none)
  double nvlink_gbps = 0;       // GB/s per link and direction
  int pcie_generation = 0;
  int pcie_width = 16;
  // Dense peaks in FLOP/s; absent = the part cannot do it at full rate and the report must say so.
  std::optional<double> peak_fp64, peak_fp32, peak_tf32, peak_fp16, peak_bf16, peak_fp8;
  std::string source;

  // Dense peak of matrix products in `dtype`; throws InputError naming the GPU where it has none.
  double peak_flops(Dtype dtype) const;
};

Gpu load_gpu(const std::string& name);  // catalog; InputError lists what is known
std::vector<std::string> catalog_gpus();

// ---- Machine: the graph of a node ---------------------------------------------------------------
enum class DeviceKind : std::uint8_t { gpu, nvswitch, pcie_switch, cpu, nic };
enum class LinkKind : std::uint8_t {
  nvlink,  // gpu - nvswitch or gpu - gpu; `count` links bundled
  c2c,     // Grace CPU - GPU
  pcie,    // anything below a CPU's host bridge
  socket,  // CPU - CPU (UPI, Infinity Fabric)
};

struct Device {
  DeviceKind kind = DeviceKind::gpu;
  std::string name;  // "gpu0", "nic3", "cpu1"
  int index = 0;     // among its kind, the order of CUDA / of the NICs

  // cpu (one vertex a NUMA node)
  std::string cpu_arch;    // x86_64, aarch64, ppc64le
  std::string cpu_vendor;  // GenuineIntel, AuthenticAMD, NVIDIA, ...
  int cpu_family = 0;
  int cpu_model = 0;
  int numa_node = 0;
  bool pcie_p2p = true;  // false: the driver refuses GPU peer access through this host bridge

  // nic
  double nic_gbps = 0;  // GB/s a direction (400 Gb/s = 50)
  int nic_port = 1;
  std::uint64_t nic_guid = 0;  // equal guids share an ASIC
  double nic_latency_us = 0;
  bool gpudirect_rdma = true;
};

struct Link {
  LinkKind kind = LinkKind::pcie;
  double gbps = 0;        // GB/s a direction, of the whole bundle
  double latency_us = 0;
  int count = 1;          // NVLinks in the bundle
  int pcie_generation = 0;  // pcie only
  int pcie_width = 0;
};

using MachineGraph =
    boost::adjacency_list<boost::vecS, boost::vecS, boost::undirectedS, Device, Link>;
using Vertex = boost::graph_traits<MachineGraph>::vertex_descriptor;

struct Machine {
  std::string name;       // catalog key: "dgx-h100"
  std::string full_name;
  std::string source;     // of its figures
  Gpu gpu;                // all GPUs of a machine are one part
  MachineGraph graph;
  std::vector<Vertex> gpus;  // by index
  std::vector<Vertex> nics;  // by index
  std::string network;       // default fabric class: "infiniband", "roce", "efa", "ethernet", "none"
  double host_memory_bytes = 0;

  bool has_nvswitch() const;
};

// NAME is a catalog name or a path to a machine TOML. Throws InputError.
Machine load_machine(const std::string& name_or_path);
std::vector<std::string> catalog_machines();

// ---- Fabric and cluster -------------------------------------------------------------------------
enum class FabricKind : std::uint8_t {
  single_switch,   // every NIC on one non-blocking switch
  leaf_spine,      // nodes on leaves; uplinks may be oversubscribed
  rail_optimised,  // NIC i of every node of a pod on leaf i
};

struct Fabric {
  FabricKind kind = FabricKind::rail_optimised;
  std::string network = "infiniband";  // decides the latency class: infiniband roce efa ethernet
  double oversubscription = 1.0;       // downlink over uplink at the leaf
  int leaf_ports = 32;                 // nodes a leaf (leaf_spine) or a pod (rail_optimised)
  double hop_latency_us = 0;           // a switch hop
  bool gpudirect_rdma = true;          // off: NIC traffic goes through host memory
  double nic_gbps = 0;                 // override of every NIC's speed, GB/s; 0 keeps the machine's
};

struct ClusterOptions {
  int nodes = 0;          // 0: as many as gpus needs
  int gpus = 0;           // world size; 0: nodes * gpus_per_node
  int gpus_per_node = 0;  // 0: all of the machine
  std::optional<FabricKind> fabric;
  std::optional<double> oversubscription;
  std::optional<bool> gpudirect_rdma;
  std::optional<double> nic_gbps;
  std::optional<std::string> network;
};

// Ranks fill nodes in order: rank r is local GPU r % gpus_per_node of node r / gpus_per_node; the
// last node may be partly filled.
struct Cluster {
  Machine machine;
  Fabric fabric;
  int nodes = 1;
  int gpus_per_node = 1;
  int world_size = 1;

  int node_of(int rank) const { return rank / gpus_per_node; }
  int local_of(int rank) const { return rank % gpus_per_node; }
};

// Throws InputError for what contradicts itself (more GPUs than fit, several nodes without a NIC).
Cluster make_cluster(Machine machine, const ClusterOptions& options);

std::string_view to_string(DeviceKind kind);
std::string_view to_string(LinkKind kind);
std::string_view to_string(FabricKind kind);

}  // namespace stepcast
