#pragma once
// NCCL's view of the used part of a node, and what its search finds there; kept for all that ask.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sim/collectives/axis_groups.hpp"
#include "sim/collectives/nccl/constants.hpp"
#include "sim/collectives/nccl/search.hpp"
#include "sim/collectives/nccl/system.hpp"

namespace stepcast {

struct NodeSearch {
  NodeSearch(const nccl::Constants& constants, const Machine& machine, const std::vector<int>& gpus,
             nccl::SystemOptions options)
      : system(machine, gpus, options), result(nccl::search_graphs(constants, system)) {}

  nccl::System system;
  nccl::SearchResult result;
};

// Of one machine. Few: one or two for each subset of a node's GPUs that an axis has, and each way
// to set the NICs.
class NodeSearches {
 public:
  struct Key {
    std::string nccl_version;
    GpuMask mask = 0;
    bool across_nodes = false;
    bool gpudirect_rdma = true;
    double nic_gbps = 0;
    nccl::PathLimits limits;
    friend bool operator==(const Key& a, const Key& b) = default;
  };

  const NodeSearch& of(const Key& key, const Machine& machine, const nccl::Constants& constants);

 private:
  std::vector<std::pair<Key, std::unique_ptr<NodeSearch>>> searches_;
};

}  // namespace stepcast
