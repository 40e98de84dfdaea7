// The facade on catalog machines against NCCL's own choices for the same machine: the whole way
// from the machine's TOML over the graph search to algorithm, protocol, time, channels and threads.

#include <doctest/doctest.h>

#include <cmath>
#include <set>

#include "sim/collectives/collective_cost.hpp"
#include "tests/unit/collectives/golden.hpp"

using namespace stepcast;

namespace {

struct Pair {
  const char* machine;  // catalog
  const char* topo;     // golden/xml
  // The golden machine has other NICs or numbers its GPUs otherwise: whole single nodes only.
  bool whole_nodes_alone = false;
};

constexpr Pair pairs[] = {
    {"dgx-h100", "dgx-h100-8xH100-8x400G"},
    {"dgx-a100", "dgx-a100-8xA100-8x200G"},
    {"hgx-a100-4x100g", "a100-8xA100-4x100G-p4d-like"},
    {"hgx-b200", "hgx-b200-8xB200-8x400G"},
    {"l40s-8x", "pcie-8xL40S-intel-2perswitch-1x200G"},
    {"rtx-4090-8x", "pcie-8xRTX4090-amd-2socket"},
    {"rtx-3090-2x", "pcie-2xRTX3090-nv4"},
    {"rtx-3090-2x-nobridge", "pcie-2xRTX3090-nonvlink-amd"},
    {"perlmutter-a100", "simllm-perlmutter-4xA100-topo"},
    {"gh200-1x", "gh200-1gpu-200G"},
    {"dgx-h200", "simllm-vastai-8xH200-topo", true},
    {"dgx-1v", "proteus-dgx1-8xV100-2ib-topo", true},
};

// Printed with 5 digits of a float.
bool equal_to_5_digits(double got, double want) {
  const double half_digit = 0.5 * std::pow(10.0, std::floor(std::log10(want)) - 4);
  return std::abs(got - want) <= half_digit + 2e-6 * want;
}

}  // namespace

TEST_CASE("catalog machines choose what NCCL chooses, on any number of nodes and at any size") {
  const std::vector<golden::Line> lines = golden::lines("select.csv");
  std::set<std::string> seen;
  int compared = 0;
  for (const Pair& pair : pairs) {
    const Machine machine = load_machine(pair.machine);
    for (const golden::Line& line : lines) {
      const bool first_gpus =
          line.gpus == "all" || line.gpus == "0" || line.gpus == "0+1" || line.gpus == "0+1+2+3";
      if (line.topo != pair.topo || !first_gpus) continue;
      if (pair.whole_nodes_alone && (line.nodes != 1 || line.gpus != "all")) continue;
      ClusterOptions options;
      options.nodes = line.nodes;
      if (line.gpus != "all") {
        options.gpus_per_node = static_cast<int>((line.gpus.size() + 1) / 2);
      }
      const Cluster cluster = make_cluster(machine, options);
      const Collectives collectives(cluster, {1, cluster.world_size});
      CAPTURE(machine.name);
      CAPTURE(line.nodes);
      CAPTURE(line.gpus);
      CAPTURE(to_string(line.function));
      CAPTURE(collectives.describe(Axis::world));
      Bytes bytes = 256;
      int differ = 0;
      for (const golden::Cell& want : line.cells) {
        const CollectiveCost got =
            collectives.cost(Axis::world, line.function, bytes, Dtype::fp32, Reduction::sum);
        differ += got.choice.algorithm != want.algorithm || got.choice.protocol != want.protocol ||
                  !equal_to_5_digits(got.choice.predicted_us, want.a) ||
                  got.choice.tuned_channels != static_cast<int>(want.b) ||
                  got.choice.threads != static_cast<int>(want.c);
        bytes *= 2;
        ++compared;
      }
      CHECK(differ == 0);
      seen.insert(pair.machine);
    }
  }
  CHECK(seen.size() == std::size(pairs));
  CHECK(compared > 10000);
}
