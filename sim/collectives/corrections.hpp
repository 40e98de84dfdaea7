#pragma once
// What NCCL's own prediction leaves out, per class of network. NCCL predicts in order to choose,
// not to say how long: latency + bytes / bandwidth, with latencies of InfiniBand and the bandwidth
// of buffers in steady state. Real calls take longer, most of all from 64 KiB to 16 MiB. The
// correction of a class (us):
//
//   time = latency + launch + network steps * step + wire / efficiency + ramp * sqrt(wire)
//   wire = NCCL's, or shared host memory's where that takes longer, times hops^stall
//
// latency and wire (bytes / bandwidth) are NCCL's, of the algorithm and protocol that it chose; the
// choice is never changed.
//
//   launch      a call's fixed cost that NCCL's base latency has not (one node)
//   step        what each step between nodes takes beyond NCCL's step of InfiniBand: EFA's
//               reliable datagrams, TCP's copies, the proxy thread that posts each chunk
//   efficiency  of the bandwidth for the largest buffers: on one node at most 1, but through shared
//               host memory, whose bandwidth is itself an estimate (docs/collectives.md); between
//               nodes at most 25/24, NICs over what NCCL takes their PCIe for
//   two_node_all_reduce
//               in its place for a tree (Tree, NVLSTree) on exactly two nodes of several GPUs,
//               where a byte crosses once each way: NCCL's model of that is off by class. Not for a
//               ring, whose bytes cross twice
//   stall       how the bandwidth falls with the hops between nodes that data takes in a row: nodes
//               - 1 in a ring, log2(nodes) in a tree, 1 on two nodes. A pipeline goes at the pace
//               of its slowest link, and on a fabric that many share each further link is one more
//               that may be slow just now. 0: hops cost latency alone, as where every flow has a
//               path of its own; 1: nothing is pipelined. With 0.7 a ring over 8 nodes takes 3.9
//               times as long on the wire as NCCL says, a tree over 32 nodes 3.1 times
//   ramp        chunks that do not fill the pipes: us for each sqrt(us) on the wire. With 3.2, a
//               call of 100 us on the wire takes 32 us more, one of 10,000 us 320. Not for LL,
//               whose chunks are small at any size.
//
// Whatever the class, no call is faster than the bytes that its fullest link must carry at that
// link's line rate (`least_us`): two nodes of eight NICs of 50 GB/s reduce no more than 400 GB/s by
// a tree (S/8 a NIC and direction), and by a ring a bus bandwidth of 400 GB/s.
//
// Example: class nvlink3, launch 7.3, ramp 3.95; all-gather of 64 MiB on 8 A100. NCCL says 32.2 us
// + 244.7 us on the wire = 277; with 7.3 and 3.95 * sqrt(244.7) = 61.8 that is 346. Measured, on a
// machine that was not fitted on: 352.
//
// The figures come with the machines they were fitted on, data/collective-corrections.toml, written
// by `fit_collectives` (validate/collectives); tests/unit/published_calls compares it with a fit
// made anew.

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "sim/collectives/nccl/tuner.hpp"

namespace stepcast {

struct Correction {
  double launch_us = 0;
  double step_us = 0;
  double efficiency = 1;
  double two_node_all_reduce = 1;
  double ramp = 0;
  double stall = 0;
};

// One call as NCCL sees it.
struct PredictedCall {
  CollectiveKind kind = CollectiveKind::all_reduce;
  NcclAlgorithm algorithm = NcclAlgorithm::ring;
  NcclProtocol protocol = NcclProtocol::simple;
  int ranks = 1;
  int nodes = 1;
  double latency_us = 0;
  double wire_us = 0;
  double staged_us = 0;  // its bytes through shared host memory, which NCCL takes for PCIe
  double least_us = 0;   // its bytes at the line rate of the links
};

// Whether a tree reduces on exactly two nodes of several GPUs.
bool is_two_node_tree(const PredictedCall& call);

// What of that does not grow with the size: latency, launch and steps.
double fixed_us(const Correction& correction, const PredictedCall& call);

double corrected_us(const Correction& correction, const PredictedCall& call);

// Steps between nodes, one after another, as NCCL's latency counts them.
int network_steps(const PredictedCall& call);
// The same in one direction: the longest way of a chunk. 1 on two nodes, 0 within one.
int network_hops(const PredictedCall& call);

// On one node "nvlink2" to "nvlink5", the generation of the links to an NVSwitch, "host" where some
// of the traffic goes through shared host memory (`staged`), "" with any other links. Between nodes
// the network's name, but "rdma" for InfiniBand and RoCE, "rdma-blackwell" with such GPUs.
// "efa-busy" is EFA in one cluster whose figures were published as means while others used it: what
// `efa` takes, and the stall. Only a scenario that names it as its network gets that.
std::string correction_class(const nccl::CommShape& comm, bool nvswitch, bool staged,
                             const std::string& network);

class Corrections {
 public:
  static std::shared_ptr<const Corrections> shipped();
  static Corrections from_text(std::string_view text, const std::string& file);

  void set(const std::string& name, const Correction& correction) { classes_[name] = correction; }
  void drop(const std::string& name) { classes_.erase(name); }
  // Nothing where no class was fitted.
  const Correction* find(const std::string& name) const;
  const std::map<std::string, Correction>& all() const { return classes_; }

 private:
  std::map<std::string, Correction> classes_;
};

}  // namespace stepcast
