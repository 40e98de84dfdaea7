#pragma once
// What one collective does and costs, in three layers kept apart (scatter and gather, which NCCL
// has not, are peer copies: peer_copies.hpp):
//   choice  algorithm, protocol, channels, threads: as NCCL chooses (nccl/tuner.hpp)
//   load    bytes on each kind of link, SMs held, HBM traffic: what it takes from others
//   time    alone: NCCL's own model, bounded below by the slowest link's load, then corrected by
//           what was measured on networks of its class and through shared host memory
//           (corrections.hpp). Where NCCL found no channels its 0.1 GB/s is a placeholder, and the
//           links alone give the time
// Tested by tests/unit/collectives.

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/name.hpp"
#include "base/provenance.hpp"
#include "base/units.hpp"
#include "sim/collectives/algorithms.hpp"
#include "sim/collectives/axis_groups.hpp"
#include "sim/collectives/broken_links.hpp"
#include "sim/collectives/corrections.hpp"
#include "sim/collectives/measured.hpp"
#include "sim/collectives/nccl/environment.hpp"
#include "sim/collectives/nccl/types.hpp"
#include "sim/schedule/schedule.hpp"
#include "topologies/topology.hpp"

namespace stepcast {

struct CollectiveChoice {
  NcclAlgorithm algorithm = NcclAlgorithm::ring;
  NcclProtocol protocol = NcclProtocol::simple;
  int channels = 1;         // CTAs that one call starts: SMs held
  int tuned_channels = 1;   // what NCCL's tuner allows; more than one small call can fill
  int threads = 0;          // of a CTA
  double predicted_us = 0;  // NCCL's own time formula, to the digit
};

// "Ring/Simple 24ch", or "peer copies" for what holds no channel.
std::string words(const CollectiveChoice& choice);

// A load on one class of links of a rank: seconds = bytes through it / its bandwidth, all sibling
// communicators that run at the same time included (8 replica groups a node on 4 NICs: 2 a NIC).
struct LinkLoad {
  Name resource;     // "nvlink", "pcie", "nic", "fabric"
  double bytes = 0;  // through the link in its busier direction, siblings included
  Seconds seconds = 0;
};

struct CollectiveCost {
  CollectiveChoice choice;
  Seconds seconds = 0;  // alone (with its siblings)
  Seconds fixed = 0;    // what of that does not grow with the size: latency, launch, steps
  std::vector<LinkLoad> loads;
  double sm_share = 0;              // of the GPU's SMs while it runs
  double hbm_bytes = 0;             // read and written on the GPU
  std::optional<double> hbm_share;  // of its bandwidth while it runs, where that was measured
  double bytes_sent_intra = 0;      // per GPU, over NVLink or PCIe within the node
  double bytes_sent_inter = 0;      // per GPU, averaged over the node's GPUs, over NICs
  double busbw_gbps = 0;            // nccl-tests' definition, GB/s
  Provenance provenance = Provenance::modelled;
  std::optional<MeasuredTime> measured;  // what a measured table says, where it answered
  std::string network_class;             // of the corrections, fitted or not (corrections.hpp)
  PredictedCall predicted;               // what they correct; the links' bound is in its wire_us
  bool corrected = false;
};

// How much of the SMs a collective of so many channels takes from a product beside it, and of the
// memory from a stream, as somebody measured: 1 - alone / beside. Rising channels, interpolated
// between, constant outside. Memory below 0: not measured.
struct MeasuredShare {
  double channels = 0;
  double sm = 0;
  double memory = -1;
};

// NCCL's searches of the nodes of one machine: many Collectives on it share them, whatever their
// number of nodes, fabric and mesh. One thread at a time.
class NodeSearches;
std::shared_ptr<NodeSearches> make_node_searches();

struct CollectiveOptions {
  std::string nccl_version = "2.28.9";  // or "2.30.7"
  nccl::Environment environment = {};
  std::shared_ptr<const MeasuredTable> measured = nullptr;
  std::vector<MeasuredShare> interference = {};
  std::shared_ptr<const Corrections> corrections = nullptr;  // none: NCCL's own prediction
  std::shared_ptr<NodeSearches> searches = nullptr;          // of this machine; none: its own
  Siblings siblings = {};  // GPUs of a replica, each with communicators of its own
};

// All communicators of a mesh on a cluster. Searches graphs once per axis, when the axis is first
// asked for, and answers calls, each kind of call once. One thread at a time.
class Collectives {
 public:
  Collectives(const Cluster& cluster, Mesh mesh, CollectiveOptions options = {});
  ~Collectives();
  Collectives(const Collectives&) = delete;
  Collectives& operator=(const Collectives&) = delete;

  // bytes: nccl-tests' size (whole tensor; gathered tensor; unreduced input).
  CollectiveCost cost(Axis axis, CollectiveKind kind, Bytes bytes, Dtype dtype,
                      Reduction reduction) const;

  // From now on costs are of the communicators that this GPU is in; nothing: all links are whole.
  void break_links(std::optional<BrokenNode> broken);

  // Ranks, nodes and search result of an axis, for people.
  std::string describe(Axis axis) const;
  // The links of an axis as NCCL's search uses them: what other algorithms are compared on.
  StepRates rates(Axis axis) const;
  // The classes whose corrections entered the costs answered so far.
  const std::set<std::string>& corrected_classes() const;
  int ranks(Axis axis) const;
  int nodes(Axis axis) const;

 private:
  CollectiveCost work_out(Axis axis, CollectiveKind kind, Bytes bytes, Dtype dtype,
                          Reduction reduction) const;

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// busbw = bytes / seconds * factor; factors by nccl-tests: 2(n-1)/n, (n-1)/n, (n-1)/n, 1, 1.
double bus_bandwidth_gbps(CollectiveKind kind, Bytes bytes, Seconds seconds, int ranks);

}  // namespace stepcast
