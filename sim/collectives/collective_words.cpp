// An axis in words, and its links as other algorithms are compared on them.

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/error.hpp"
#include "sim/collectives/axis_plan.hpp"

namespace stepcast {

std::string Collectives::describe(Axis axis) const {
  if (impl_->mesh.size(axis) == 1) {
    return fmt::format("{}: 1 rank, no communication\n", to_string(axis));
  }
  AxisPlan& plan = impl_->plan(axis);
  std::vector<std::string> lines;  // kinds that NCCL treats alike are one line
  for (const nccl::Tuner& tuner : plan.tuners) {
    const auto graph = [](const nccl::GraphResult& g) {
      if (nccl::is_placeholder(g)) return std::string("none found (NCCL then takes rank order)");
      return fmt::format("{} x {:g}/{:g} GB/s {}/{}", g.channels, g.bw_intra, g.bw_inter,
                         to_string(g.type_intra), to_string(g.type_inter));
    };
    std::string line =
        fmt::format("{}: {} ranks on {} node{}; ring {}; tree {}", to_string(axis),
                    tuner.comm().ranks, tuner.comm().nodes, tuner.comm().nodes == 1 ? "" : "s",
                    graph(tuner.search().ring), graph(tuner.search().tree));
    if (tuner.search().nvls.channels > 0 && tuner.comm().nvls_supported) {
      line += "; NVLS " + graph(tuner.search().nvls);
    }
    line += fmt::format("; {} channels (NCCL {})\n", tuner.channels(), impl_->constants.version);
    if (std::find(lines.begin(), lines.end(), line) == lines.end()) lines.push_back(line);
  }
  std::string text;
  for (const std::string& line : lines) text += line;
  return text;
}

std::string words(const CollectiveChoice& choice) {
  if (choice.channels == 0) return "peer copies";
  return fmt::format("{}/{} {}ch", to_string(choice.algorithm), to_string(choice.protocol),
                     choice.channels);
}

StepRates Collectives::rates(Axis axis) const {
  STEPCAST_ASSERT(impl_->mesh.size(axis) > 1, "rates of an axis of one rank");
  const nccl::Tuner& tuner = impl_->plan(axis).tuners.front();
  const nccl::GraphResult& ring = tuner.search().ring;
  const auto latency = [&](nccl::LinkClass link) {
    return impl_->constants.hardware_latency_us[nccl::index_of(link)][nccl::index_of(
        NcclAlgorithm::ring)][nccl::index_of(NcclProtocol::simple)];
  };
  StepRates rates;
  rates.nodes = tuner.comm().nodes;
  rates.base_us = impl_->constants.base_latency_us[nccl::index_of(NcclAlgorithm::ring)]
                                                  [nccl::index_of(NcclProtocol::simple)];
  rates.intra_us = latency(ring.type_intra == nccl::PathType::nvl ? nccl::LinkClass::nvlink
                                                                  : nccl::LinkClass::pci);
  rates.inter_us = latency(nccl::LinkClass::net) + 2 * ring.latency_inter_us;
  rates.gpu_gbps = ring.channels * ring.bw_intra;
  rates.node_gbps = ring.channels * ring.bw_inter;
  if (tuner.comm().nodes > 1) {
    // Within a node the search for several nodes is held back by the NICs; alone it is not.
    GpuMask mask = impl_->plan(axis).groups.kinds.front().masks.front();
    if (std::popcount(mask) > 1) {
      const nccl::GraphResult& alone = impl_->search(mask, false).result.ring;
      rates.gpu_gbps = alone.channels * alone.bw_intra;
    }
    const Machine& machine = impl_->cluster.machine;
    rates.nic_gbps = std::min(rates.node_gbps, machine.graph[machine.nics.front()].nic_gbps);
  }
  return rates;
}

}  // namespace stepcast
