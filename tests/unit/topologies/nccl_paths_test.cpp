// The PCIe trees and NVLinks of catalog machines against what NCCL's own code makes of the same
// machines: every path type and hop count must agree (data/nccl_paths.txt).
#include <doctest/doctest.h>

#include <sstream>

#include "base/toml.hpp"
#include "small_machine.hpp"
#include "topologies/paths.hpp"

namespace stepcast {
namespace {

// As NCCL: the better of the hardware's route and a relay over NVLinks.
std::string cell(const Machine& machine, Vertex a, Vertex b, int extra_hops) {
  std::optional<Path> path = find_path(machine, a, b);
  const std::optional<Path> relay = find_path(machine, a, b, Transit::nvlink_gpus);
  REQUIRE(path);
  if (relay && relay->type < path->type) path = relay;
  return std::string(to_string(path->type)) + "/" + std::to_string(path->hops() + extra_hops);
}

TEST_CASE("path types and hops of catalog machines are NCCL's own") {
  std::istringstream file(read_file(STEPCAST_TEST_DATA "/data/nccl_paths.txt"));
  Machine machine;
  int row = 0;
  int machines = 0;
  int compared = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    if (line[0] != ' ') {
      machine = load_machine(line);
      row = 0;
      ++machines;
      continue;
    }
    CAPTURE(machine.name);
    CAPTURE(row);
    std::istringstream cells(line);
    int column = 0;
    bool to_nics = false;
    for (std::string expected; cells >> expected;) {
      if (expected == "|") {
        to_nics = true;
        column = 0;
        continue;
      }
      const Vertex to = to_nics ? test::nic(machine, column++) : test::gpu(machine, column++);
      if (expected.substr(0, 3) == "PXN") continue;
      CHECK(cell(machine, test::gpu(machine, row), to, to_nics ? 1 : 0) == expected);
      ++compared;
    }
    ++row;
  }
  CHECK(machines == 10);
  CHECK(compared > 400);
}

}  // namespace
}  // namespace stepcast
