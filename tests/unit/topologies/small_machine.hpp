#pragma once
// A machine small enough to work out by hand, as TOML text that tests change line by line:
//
//   cpu0 --socket 40-- cpu1        two H100, one a CPU behind a Gen4 switch, bridged by 6 NVLinks;
//    |                  |          one 200 Gb/s NIC beside GPU 0
//   pcie0              pcie1
//   |    |              |
//  gpu0 nic0           gpu1

#include <doctest/doctest.h>

#include <string>

#include "base/error.hpp"
#include "topologies/topology.hpp"

namespace stepcast::test {

inline std::string small_machine() {
  return R"(full_name = "Two H100"
gpu = "h100-sxm"
gpus = 2
network = "roce"
host_memory_gb = 512
source = "made up"
[cpu]
arch = "x86_64"
vendor = "GenuineIntel"
family = 6
model = 143
numa_nodes = 2
socket_gbps = 40
[nic]
count = 1
gbit_per_s = 200
pcie_generation = 5
[nvlink]
kind = "pairs"
pairs = [[0, 1, 6]]
[pcie]
generation = 4
switches = [
  { cpu = 0, gpus = [0], nics = [0] },
  { cpu = 1, gpus = [1] },
]
)";
}

// The text with its only `from` replaced by `to`.
inline std::string with(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  REQUIRE(text.find(from, at + 1) == std::string::npos);
  return text.replace(at, from.size(), to);
}

inline Machine parse(const std::string& text) { return parse_machine(text, "m.toml"); }

// What reading `text` complains about; "" when it does not.
inline std::string complaint(const std::string& text) {
  try {
    parse(text);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

inline Vertex gpu(const Machine& machine, int index) {
  return machine.gpus.at(static_cast<std::size_t>(index));
}
inline Vertex nic(const Machine& machine, int index) {
  return machine.nics.at(static_cast<std::size_t>(index));
}

}  // namespace stepcast::test
