#pragma once
// What it runs on. A Machine is one node type: a Boost.Graph of GPUs, NVSwitches, PCIe switches,
// CPUs and NICs. A Cluster is a number of such nodes on a fabric, with the GPUs that are used.
//
//   Cluster cluster = make_cluster(load_machine("dgx-h100"), {.nodes = 16});
//
// Speeds on links are line rates in one direction after line encoding (GB/s = 1e9 B/s: 25 for an
// NVLink 4, 63.0 for PCIe Gen5 x16, 50 for a 400 Gb/s NIC), each with its source in the catalog.
// What a protocol leaves of them, and NCCL's own idea of a speed, is derived in sim/collectives
// from the link counts and generations that stand here too.
//
// Next to this header: paths.hpp (routes, bottlenecks), cut.hpp (bisection), subset.hpp (a node
// with some of its GPUs), fabric.hpp (speed between nodes), describe.hpp (text),
// machine_builder.hpp (the graph, piece by piece). The catalog's TOML is documented in
// docs/topologies.md. Tested by tests/unit/topologies.

#include <boost/graph/adjacency_list.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/provenance.hpp"
#include "base/units.hpp"

namespace stepcast {

// ---- GPU --------------------------------------------------------------------------------------
struct Gpu {
  std::string name;            // catalog key: "h100-sxm"
  std::string full_name;       // "NVIDIA H100 SXM5 80GB"
  int compute_capability = 0;  // 90 for 9.0
  int sm_count = 0;
  double boost_mhz = 0;
  Bytes memory_bytes = 0;  // HBM or GDDR, usable as the driver reports it
  double memory_gbps = 0;  // GB/s
  double l2_mib = 0;
  double power_watts = 0;  // board limit
  int nvlinks = 0;         // links of the part (0: none)
  double nvlink_gbps = 0;  // GB/s per link and direction
  int c2c_links = 0;       // Grace Hopper: links to the CPU (0: none)
  double c2c_gbps = 0;     // GB/s a direction, of all of them
  int pcie_generation = 0;
  int pcie_width = 16;
  bool pcie_p2p = true;        // false: the driver refuses peer access over PCIe (GeForce)
  bool gpudirect_rdma = true;  // false: a NIC cannot reach its memory (GeForce)
  // Dense peaks in FLOP/s; absent = the part cannot do it at full rate and the report must say so.
  std::optional<double> peak_fp64, peak_fp32, peak_tf32, peak_fp16, peak_bf16, peak_fp8;
  std::string source;  // of the peaks
  // What the figures come from, as (group of figures, source): "dense_tflops", "memory", ...
  std::vector<std::pair<std::string, std::string>> sources;

  // Dense peak of matrix products in `dtype`; throws InputError naming the GPU where it has none.
  double peak_flops(Dtype dtype) const;
};

// NAME is a catalog name or a path to a GPU TOML. Throws InputError, which lists what is known.
Gpu load_gpu(const std::string& name_or_path);
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

  std::string product;  // cpu and nic: "AMD EPYC 7742 (Rome)", "ConnectX-7"

  // cpu (one vertex a NUMA node; every two are joined by a socket link)
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

  bool gpudirect_rdma = true;  // gpu and nic: takes part in GPUDirect RDMA
};

struct Link {
  LinkKind kind = LinkKind::pcie;
  double gbps = 0;  // GB/s a direction, of the whole bundle
  double latency_us = 0;
  int count = 1;            // NVLinks in the bundle
  int pcie_generation = 0;  // pcie only
  int pcie_width = 0;
};

using MachineGraph =
    boost::adjacency_list<boost::vecS, boost::vecS, boost::undirectedS, Device, Link>;
using Vertex = boost::graph_traits<MachineGraph>::vertex_descriptor;

struct Machine {
  std::string name;  // catalog key: "dgx-h100"
  std::string full_name;
  std::string source;  // of its figures
  Gpu gpu;             // all GPUs of a machine are one part
  MachineGraph graph;
  std::vector<Vertex> gpus;  // by index
  std::vector<Vertex> nics;  // by index
  std::string network;       // class of its network: "infiniband", "roce", ...; "none" without NIC
  double host_memory_bytes = 0;

  bool has_nvswitch() const;
};

// NAME is a catalog name or a path to a machine TOML. Throws InputError.
Machine load_machine(const std::string& name_or_path);
// The machine of a TOML text; FILE is what errors name it, and GPU paths are relative to it.
Machine parse_machine(std::string_view text, const std::string& file);
Gpu parse_gpu(std::string_view text, const std::string& file);
std::vector<std::string> catalog_machines();

// ---- Fabric and cluster -------------------------------------------------------------------------
enum class FabricKind : std::uint8_t {
  single_switch,   // every NIC on one non-blocking switch
  leaf_spine,      // nodes on leaves; uplinks may be oversubscribed
  rail_optimised,  // NIC i of every node of a pod on leaf i
  rail_only,       // NIC i of every node on a network of its own: nothing joins the rails
  fat_tree,        // leaf_spine with a third tier: pods of leaf_ports leaves, joined by a core
  dragonfly,       // groups of leaf_ports nodes, every two joined by global links
};

struct Fabric {
  FabricKind kind = FabricKind::rail_optimised;
  std::string network = "infiniband";  // decides the latency class (catalog/networks.toml)
  double oversubscription = 1.0;       // downlink over uplink at the leaf (dragonfly: the group)
  int leaf_ports = 32;                 // nodes a leaf, a pod (rail_optimised), a group (dragonfly)
  double hop_latency_us = 0;           // a switch hop, by the network class
  bool gpudirect_rdma = true;          // off: NIC traffic goes through host memory
  double nic_gbps = 0;                 // override of every NIC's speed, GB/s; 0 keeps the machine's
};

struct ClusterOptions {
  int nodes = 0;          // 0: as many as gpus needs
  int gpus = 0;           // world size; 0: nodes * gpus_per_node
  int gpus_per_node = 0;  // 0: all of the machine
  std::optional<FabricKind> fabric = {};
  std::optional<double> oversubscription = {};
  std::optional<bool> gpudirect_rdma = {};
  std::optional<double> nic_gbps = {};
  std::optional<std::string> network = {};
  std::optional<int> leaf_ports = {};
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
  // Ranks on node `node`; fewer than gpus_per_node only on the last one.
  int ranks_on(int node) const {
    return node + 1 < nodes ? gpus_per_node : world_size - (nodes - 1) * gpus_per_node;
  }
};

// Throws InputError for what contradicts itself (more GPUs than fit, several nodes without a NIC).
Cluster make_cluster(Machine machine, const ClusterOptions& options);
std::vector<std::string> network_classes();

std::string_view to_string(DeviceKind kind);
std::string_view to_string(LinkKind kind);
std::string_view to_string(FabricKind kind);
// Reads the names above, and with "-" for "_" or "optimized". Throws InputError that points to
// ASKED.
FabricKind parse_fabric_kind(std::string_view text, const Where& asked);

}  // namespace stepcast
