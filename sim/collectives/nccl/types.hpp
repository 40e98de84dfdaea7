#pragma once
// The words NCCL's cost model is written in: algorithms, protocols, the outcome of a graph search,
// and the few properties of a communicator that the tuner reads.

#include <array>
#include <cstdint>
#include <string>
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
  friend bool operator==(const Channel& a, const Channel& b) = default;
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
  friend bool operator==(const GraphResult& a, const GraphResult& b) = default;
};

struct SearchResult {
  GraphResult ring, tree, nvls;
};

// A row of a tuner plugin's CSV: what to take for a call that it matches. -1: any, or as NCCL does.
struct TunerRow {
  int function = 0;  // CollectiveKind
  std::int64_t min_bytes = 0, max_bytes = -1;
  NcclAlgorithm algorithm = NcclAlgorithm::ring;
  NcclProtocol protocol = NcclProtocol::simple;
  bool for_one_call = true;       // not for several calls in one group (numPipeOps)
  bool for_plain_buffers = true;  // not for registered ones (regBuff)
  int channels = -1, nodes = -1, ranks = -1;
};

// What the user asked of the tuner (environment.hpp); by default nothing.
struct TunerSettings {
  static constexpr std::uint32_t any = 0xffffffff;
  std::array<std::uint32_t, 5> algorithms{any, any, any, any, any};  // masks, by CollectiveKind
  std::array<std::uint32_t, 5> protocols{any, any, any, any, any};
  bool protocols_said = false;                       // lifts NCCL's rule of where LL128 may run
  int min_channels = 0, max_channels = 0;            // 0: not said
  int min_nvls_channels = 0, max_nvls_channels = 0;  // CTAs count for NVLS too
  int nvls_channels = 0;
  bool nvls = true;
  int pat = 2;  // 0 never, 1 where it can, 2 as NCCL does
  std::vector<TunerRow> rows;
};

// A graph of NCCL_GRAPH_FILE (graph_file.hpp); devices by their number on the machine.
struct GivenGraph {
  struct Channel {
    int line = 0;
    std::vector<int> gpus, nics;
    friend bool operator==(const Channel& a, const Channel& b) = default;
  };
  int id = 0;          // 0 ring, 1 tree, 3 NVLS
  GraphResult result;  // without orders
  std::vector<Channel> channels;
  friend bool operator==(const GivenGraph& a, const GivenGraph& b) = default;
};
struct GraphFile {
  std::string file;
  std::vector<GivenGraph> graphs;  // none: everything is searched
  friend bool operator==(const GraphFile& a, const GraphFile& b) = default;
};

// ... and of the graph search.
struct PathLimits {
  PathType peer_level = PathType::dis;  // dis: NCCL's default
  PathType gdr_level = PathType::dis;
  int cross_nic = 2;
  bool pxn = true;
  GraphFile graphs = {};
  friend bool operator==(const PathLimits& a, const PathLimits& b) = default;
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
  TunerSettings settings = {};

  double ranks_per_node() const { return static_cast<double>(ranks) / nodes; }
};

}  // namespace nccl
}  // namespace stepcast
