// S bytes on N ranks, g = N / M on each of M nodes. Sent by the busiest GPU, and steps:
//
//                          all-reduce                              steps
//   centralised            (N-1) S, the primary's                  2
//   ring                   2 (N-1)/N S                             2 (N-1)
//   double binary tree     2 S                                     2 (g-1 + log2 M)
//   recursive doubling     log2 N * S                              log2 N
//   halving-doubling       2 (N-1)/N S                             2 log2 N
//   hierarchical           2 (g-1)/g S + 2 (M-1)/M S/g             2 (g-1) + 2 (M-1)
//
// Example, S = 1 GB on 8 GPUs: the primary of the centralised way sends 7 GB and receives 7, every
// GPU of a ring sends 1.75 GB. On 64 GPUs it is 63 GB against 1.97: that is why nn.DataParallel
// does not scale and DDP does. Where N is no power of two, doubling first folds the ranks beyond
// the power into their neighbours: two more steps of S.
//
// Time is base + steps * latency + bytes / rate, step by step on the link that the step takes:
// ranks fill nodes in order, so distances below g stay within a node; between nodes all g GPUs of a
// node send at once and share its NICs. Each link is alone with the collective. Sources: Thakur,
// Rabenseifner, Gropp, Optimization of Collective Communication Operations in MPICH, 2005;
// docs/sources.md, NCCL, for the tree.

#include "sim/collectives/algorithms.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.hpp"

namespace stepcast {
namespace {

int floor_log2(int value) {
  int log = 0;
  while (value >>= 1) ++log;
  return log;
}

class Calculator {
 public:
  Calculator(CollectiveKind kind, int ranks, double size, const StepRates& rates)
      : kind_(kind),
        n_(ranks),
        m_(rates.nodes),
        g_(std::max(1, ranks / std::max(1, rates.nodes))),
        s_(size),
        r_(rates) {}

  std::vector<AlgorithmCost> all() {
    std::vector<AlgorithmCost> out = {centralised(), ring()};
    if (kind_ == CollectiveKind::all_reduce) {
      out.push_back(tree());
      out.push_back(doubling());
      out.push_back(halving_doubling());
    } else {
      out.push_back(halving_or_doubling());
    }
    if (m_ > 1 && g_ > 1) out.push_back(hierarchical());
    for (AlgorithmCost& cost : out) cost.seconds += r_.base_us * 1e-6;
    return out;
  }

 private:
  bool both_ways() const { return kind_ == CollectiveKind::all_reduce; }
  double passes() const { return both_ways() ? 2 : 1; }

  // Seconds of steps within a node, or between nodes where all its GPUs send `bytes` each.
  Seconds within(int steps, double bytes) const {
    return steps * r_.intra_us * 1e-6 + bytes / (r_.gpu_gbps * 1e9);
  }
  Seconds between(int steps, double bytes_of_node) const {
    return steps * r_.inter_us * 1e-6 + bytes_of_node / (r_.node_gbps * 1e9);
  }

  // Gathered to one rank and sent back; all-gather: gathered in parts, all-reduce: whole tensors.
  AlgorithmCost centralised() const {
    const double part = both_ways() ? s_ : s_ / n_;
    // What the primary takes in and gives out: reduce-scatter takes N-1 whole tensors and gives
    // parts, all-gather takes parts and gives whole tensors.
    const double in = kind_ == CollectiveKind::reduce_scatter ? s_ : part;
    const double out = kind_ == CollectiveKind::all_gather ? s_ : part;
    AlgorithmCost cost{Algorithm::centralised, 2, (n_ - 1) * std::max(in, out), "N", 0};
    for (const double bytes : {in, out}) {
      const double local = g_ > 1 ? (g_ - 1) * bytes / (r_.gpu_gbps * 1e9) : 0;
      const double remote = m_ > 1 ? (n_ - g_) * bytes / (r_.nic_gbps * 1e9) : 0;
      cost.seconds += (m_ > 1 ? r_.inter_us : r_.intra_us) * 1e-6 + std::max(local, remote);
    }
    return cost;
  }

  AlgorithmCost ring() const {
    const double bytes = passes() * (n_ - 1) / n_ * s_;
    AlgorithmCost cost{Algorithm::ring, static_cast<int>(passes()) * (n_ - 1), bytes, "no", 0};
    const int crossing = m_ > 1 ? static_cast<int>(passes()) * (m_ - 1) : 0;
    // A ring's rate between nodes is one that its hops within them have, too: of 8 channels a GPU
    // sends one over its NIC, so it may be more than what rings of one node alone reach.
    const double gbps = m_ > 1 ? r_.node_gbps : r_.gpu_gbps;
    cost.seconds = ((cost.steps - crossing) * r_.intra_us + crossing * r_.inter_us) * 1e-6 +
                   bytes / (gbps * 1e9);
    return cost;
  }

  AlgorithmCost tree() const {
    const int depth = floor_log2(m_);
    AlgorithmCost cost{Algorithm::tree, 2 * (g_ - 1 + depth), 2 * s_, "no", 0};
    cost.seconds = 2 * ((g_ - 1) * r_.intra_us + depth * r_.inter_us) * 1e-6;
    // Within a node a chain up and down; between nodes 2 S a direction, S on two nodes.
    double transfer = g_ > 1 ? 2 * s_ / (r_.gpu_gbps * 1e9) : 0;
    if (m_ > 1) transfer = std::max(transfer, (m_ > 2 ? 2 : 1) * s_ / (r_.node_gbps * 1e9));
    cost.seconds += transfer;
    return cost;
  }

  // One exchange with the rank 2^k away of `bytes` each.
  Seconds exchange(int k, double bytes) const {
    const bool local = m_ == 1 || (1 << k) < g_;
    return local ? within(1, bytes) : between(1, bytes * g_);
  }

  // Ranks beyond the last power of two hand their tensor over and get the result back.
  Seconds fold(int power, double bytes) const {
    return (1 << power) == n_ ? 0 : 2 * exchange(0, bytes);
  }

  AlgorithmCost doubling() const {
    const int power = floor_log2(n_);
    const bool folds = (1 << power) != n_;
    AlgorithmCost cost{Algorithm::recursive_doubling, power + (folds ? 2 : 0),
                       (power + (folds ? 1 : 0)) * s_, "log N", fold(power, s_)};
    for (int k = 0; k < power; ++k) cost.seconds += exchange(k, s_);
    return cost;
  }

  // Near ranks first, half the tensor, then a quarter ...; and back.
  AlgorithmCost halving_doubling() const {
    const int power = floor_log2(n_);
    const bool folds = (1 << power) != n_;
    const double parts = 1 << power;
    AlgorithmCost cost{Algorithm::halving_doubling, 2 * power + (folds ? 2 : 0),
                       2 * (parts - 1) / parts * s_ + (folds ? s_ : 0), "no", fold(power, s_)};
    for (int k = 0; k < power; ++k) cost.seconds += 2 * exchange(k, s_ / (2 << k));
    return cost;
  }

  // All-gather by doubling, reduce-scatter by halving: the far exchange carries the small part.
  AlgorithmCost halving_or_doubling() const {
    const int power = floor_log2(n_);
    const bool folds = (1 << power) != n_;
    const double parts = 1 << power;
    AlgorithmCost cost{kind_ == CollectiveKind::all_gather ? Algorithm::recursive_doubling
                                                           : Algorithm::halving_doubling,
                       power + (folds ? 2 : 0), (parts - 1) / parts * s_ + (folds ? s_ : 0), "no",
                       fold(power, s_)};
    for (int k = 0; k < power; ++k) cost.seconds += exchange(k, s_ / (2 << k));
    return cost;
  }

  AlgorithmCost hierarchical() const {
    const double inside = passes() * (g_ - 1) / g_ * s_;
    // Each GPU's part over the nodes: all-reduce twice, all-gather and reduce-scatter once.
    const double outside = passes() * (m_ - 1) / m_ * s_ / g_;
    const int steps = static_cast<int>(passes());
    AlgorithmCost cost{Algorithm::hierarchical, steps * (g_ - 1) + steps * (m_ - 1),
                       inside + outside, "no", 0};
    cost.seconds = within(steps * (g_ - 1), inside) + between(steps * (m_ - 1), outside * g_);
    return cost;
  }

  CollectiveKind kind_;
  int n_, m_, g_;
  double s_;
  const StepRates& r_;
};

}  // namespace

std::string_view to_string(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::centralised: return "centralised";
    case Algorithm::ring: return "ring";
    case Algorithm::tree: return "double binary tree";
    case Algorithm::recursive_doubling: return "recursive doubling";
    case Algorithm::halving_doubling: return "halving-doubling";
    case Algorithm::hierarchical: return "hierarchical";
  }
  return "";
}

std::vector<AlgorithmCost> compare_algorithms(CollectiveKind kind, int ranks, double size,
                                              const StepRates& rates) {
  if (kind != CollectiveKind::all_reduce && kind != CollectiveKind::all_gather &&
      kind != CollectiveKind::reduce_scatter) {
    throw not_accepted({"--op", 0, ""}, to_string(kind),
                       {"all_reduce", "all_gather", "reduce_scatter"});
  }
  STEPCAST_ASSERT(ranks >= 2 && rates.nodes >= 1, "a collective of one rank");
  return Calculator(kind, ranks, size, rates).all();
}

}  // namespace stepcast
