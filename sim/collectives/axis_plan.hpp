#pragma once
// What is made once for each axis of a mesh and asked for by every cost: the communicators, NCCL's
// search and tuner for each kind of them, and the loads of a node that they share, on whole links
// and on broken ones (broken_links.hpp). For collective_cost.cpp.

#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/collectives/collective_cost.hpp"
#include "sim/collectives/link_load.hpp"
#include "sim/collectives/nccl/tuner.hpp"
#include "sim/collectives/node_search.hpp"

namespace stepcast {

// Loads per byte of size; the bytes sent are of one communicator.
struct UnitLoads {
  std::vector<LinkLoad> loads;
  double least = 0;  // seconds of the fullest link at its line rate
  double sent_intra = 0;
  double sent_inter = 0;
  bool staged = false;        // some of it through shared host memory
  double staged_seconds = 0;  // of the GPU that passes on most of that
  double lost = 0;            // seconds that a broken link takes longer than the fullest did
};

struct AxisPlan {
  AxisGroups groups;
  std::vector<nccl::Tuner> tuners;  // by kind
  std::map<std::pair<CollectiveKind, NcclAlgorithm>, UnitLoads> loads;
};

// "nvlink", "pcie" or "nic".
Name resource_of(nccl::PathType type);
// What a link carries at the most, GB/s a direction: the label of which NCCL's speed is what
// collectives reach of it. 0 where NCCL's is a placeholder: between CPUs, C2C.
double line_rate_gbps(nccl::PathType type, double nccl_gbps);
// Of the loads on one resource the longest.
void keep_worst(std::vector<LinkLoad>& loads, const LinkLoad& load);

struct Collectives::Impl {
  Cluster cluster;
  Mesh mesh;
  CollectiveOptions options;
  const nccl::Constants& constants;
  std::map<std::pair<GpuMask, bool>, const NodeSearch*> searches;  // of options.searches
  std::optional<AxisPlan> plans[3];
  std::set<std::string> corrected_classes;
  std::optional<BrokenNode> broken;
  using Call = std::tuple<Axis, CollectiveKind, Bytes, Dtype, Reduction>;
  std::map<Call, CollectiveCost> costs;  // answered before

  Impl(const Cluster& cluster, Mesh mesh, CollectiveOptions options);

  const NodeSearch& search(GpuMask mask, bool across);
  AxisPlan& plan(Axis axis);
  const UnitLoads& loads(Axis axis, AxisPlan& plan, CollectiveKind kind, NcclAlgorithm algorithm);
  // Scatter and gather of one process: its GPUs are those of one node.
  CollectiveCost copies(Axis axis, CollectiveKind kind, Bytes bytes);
  // Of the corrections.
  std::string class_of(const nccl::Tuner& tuner, const AxisPlan& plan, const UnitLoads& unit);

 private:
  nccl::Tuner tuner_of(const GroupKind& kind);
  void add_node(AxisPlan& plan, const NodeGroups& node, CollectiveKind kind,
                NcclAlgorithm algorithm, UnitLoads* out);
  const NodeGroups& groups_on_broken(Axis axis, const AxisPlan& plan) const;
  void add_broken(Axis axis, AxisPlan& plan, CollectiveKind kind, NcclAlgorithm algorithm,
                  UnitLoads* out);
};

}  // namespace stepcast
