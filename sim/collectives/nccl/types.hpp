#pragma once
// The words NCCL's cost model is written in: algorithms, protocols, the outcome of a graph search,
// and the few properties of a communicator that the tuner reads.

#include <cstdint>
#include <string_view>
#include <vector>

namespace stepcast {

// In NCCL's table order: ties in predicted time go to the earlier one.
enum class NcclAlgorithm : std::uint8_t {
  tree,
  ring,
  collnet_direct,
  collnet_chain,
  nvls,
  nvls_tree,
  pat,
};
enum class NcclProtocol : std::uint8_t { ll, ll128, simple };

std::string_view to_string(NcclAlgorithm algorithm);  // "Ring", "NVLSTree" as NCCL prints them
std::string_view to_string(NcclProtocol protocol);    // "LL", "LL128", "Simple"

namespace nccl {

inline constexpr int algorithm_count = 7;
inline constexpr int protocol_count = 3;

constexpr int index_of(NcclAlgorithm a) { return static_cast<int>(a); }
constexpr int index_of(NcclProtocol p) { return static_cast<int>(p); }

// What lies between two devices, best first. A path has the type of its worst link.
enum class PathType : std::uint8_t {
  loc,  // the same device
  nvl,  // NVLink, direct or through a switch
  nvb,  // NVLink through one other GPU
  c2c,  // Grace CPU - GPU
  pix,  // one PCIe switch
  pxb,  // several PCIe switches, no host bridge
  p2c,  // GPU - CPU over C2C, then PCIe
  pxn,  // a NIC reached through an NVLink neighbour
  phb,  // through a CPU's host bridge
  sys,  // across sockets
  net,
  dis,  // not connected
};

std::string_view to_string(PathType type);  // "NVL", "PIX", ...

enum class Pattern : std::uint8_t {
  none = 0,
  balanced_tree = 1,  // the NIC's traffic is split between the first two GPUs
  split_tree = 2,     // up on the first GPU, down on the second
  tree = 3,           // everything on the first GPU
  ring = 4,
  nvls = 5,
};

enum class CpuArch : std::uint8_t { x86, power, arm, other };
enum class CpuVendor : std::uint8_t { intel, amd, zhaoxin, mixed, other };

// One channel of a search: local GPU indices in the order data visits them, and the NICs it enters
// and leaves by (-1 on one node).
struct Channel {
  std::vector<int> gpus;
  int nic_in = -1;
  int nic_out = -1;
};

// Outcome of one graph search. Speeds are GB/s (1e9 B/s) per channel and direction.
struct GraphResult {
  Pattern pattern = Pattern::none;
  int channels = 0;
  double bw_intra = 0;
  double bw_inter = 0;
  PathType type_intra = PathType::loc;
  PathType type_inter = PathType::loc;
  bool same_channels = false;   // all channels visit the GPUs in one order
  int cross_nic = 0;            // 2: channel pairs leave by each other's NIC
  double latency_inter_us = 0;  // what the NIC reports
  std::vector<Channel> orders;
};

struct SearchResult {
  GraphResult ring, tree, nvls;
};

// Everything else the tuner reads of a communicator.
struct CommShape {
  int ranks = 1;
  int nodes = 1;
  int min_compute_capability = 0;  // 90 for 9.0
  int max_compute_capability = 0;
  CpuArch cpu_arch = CpuArch::x86;
  CpuVendor cpu_vendor = CpuVendor::intel;
  bool nvls_supported =
      false;  // NVSwitch multicast: sm90 or newer and >= 2 GPUs of it on each node
  int max_local_ranks = 1;

  double ranks_per_node() const { return static_cast<double>(ranks) / nodes; }
};

}  // namespace nccl
}  // namespace stepcast
