#include "sim/collectives/node_search.hpp"

#include "sim/collectives/collective_cost.hpp"

namespace stepcast {

const NodeSearch& NodeSearches::of(const Key& key, const Machine& machine,
                                   const nccl::Constants& constants) {
  for (const auto& [known, search] : searches_) {
    if (known == key) return *search;
  }
  std::vector<int> gpus;
  for (int g = 0; g < most_local_gpus; ++g) {
    if (key.mask >> g & 1) gpus.push_back(g);
  }
  nccl::SystemOptions system;
  system.across_nodes = key.across_nodes;
  system.gpudirect_rdma = key.gpudirect_rdma;
  system.nic_gbps = key.nic_gbps;
  system.limits = key.limits;
  searches_.emplace_back(key, std::make_unique<NodeSearch>(constants, machine, gpus, system));
  return *searches_.back().second;
}

std::shared_ptr<NodeSearches> make_node_searches() { return std::make_shared<NodeSearches>(); }

}  // namespace stepcast
