#pragma once
// The numbers of NCCL's model, by version. They are data (data/nccl-VERSION.toml, compiled in):
// NCCL's authors fitted them on real machines and change them between releases.

#include <array>
#include <string>
#include <vector>

#include "sim/collectives/nccl/types.hpp"

namespace stepcast::nccl {

enum class LinkClass : std::uint8_t { nvlink, pci, net };
enum class Generation : std::uint8_t { volta, ampere, hopper, blackwell };  // row of the tables

Generation generation_of(int compute_capability);
constexpr int index_of(LinkClass c) { return static_cast<int>(c); }

using PerProtocol = std::array<double, protocol_count>;
using PerAlgorithm = std::array<PerProtocol, algorithm_count>;
using PerGeneration = std::array<std::array<double, 3>, 4>;  // [generation][1, 2, more nodes]

struct Constants {
  std::string version;
  std::string source;
  PerAlgorithm base_latency_us{};
  std::array<PerAlgorithm, 3> hardware_latency_us{};  // by LinkClass
  PerGeneration ll_max_gbps{};
  PerGeneration ring_ll128_per_channel_gbps{};
  PerGeneration tree_ll128_per_channel_gbps{};
  PerGeneration tree_per_channel_gbps{};
  PerGeneration nvls_tree_per_channel_gbps{};
  std::array<double, 4> nvls_efficiency{};
  double network_overhead_us = 0;                                   // posting one network operation
  double network_overhead_amd_us = 0;                               // the same on AMD x86 hosts
  std::array<std::vector<double>, protocol_count> tree_correction;  // by floor(log2(bytes / 64))
  bool tree_correction_on_nvls_tree = false;
  bool ll128_mixed_hopper = false;
  // GB/s per channel that the search tries, fastest first; [0] below cc 90, [1] 90..99, [2] 100+
  std::array<std::vector<double>, 3> search_speeds_intra;
  std::array<std::vector<double>, 3> search_speeds_inter;
};

// Read once per process. InputError lists the versions that are known.
const Constants& constants(const std::string& version);
std::vector<std::string> known_versions();

}  // namespace stepcast::nccl
