#pragma once
// How much a machine can move between two sets of its GPUs: the minimum cut, by Boost.Graph's
// maximum flow. The bisection is the least such cut over all ways to halve the GPUs.
//
//   bisection(load_machine("dgx-h100"), {LinkKind::nvlink})->gbps == 4 * 450
//
// Cost: one flow over some 40 vertices for a cut (tens of microseconds); 35 of them for the
// bisection of 8 GPUs, 6,435 for 16.

#include <optional>
#include <vector>

#include "topologies/topology.hpp"

namespace stepcast {

// Of which links a cut counts; empty: all.
using LinkKinds = std::vector<LinkKind>;

// GB/s from the GPUs of `from` to those of `to` (indices, disjoint), in one direction, with every
// link used as well as it can be, GPUs passing data on included.
double min_cut_gbps(const Machine& machine, const std::vector<int>& from,
                    const std::vector<int>& to, const LinkKinds& kinds = {});

struct Bisection {
  double gbps = 0;        // one direction
  std::vector<int> half;  // the GPUs on one side of the cut that limits
  bool exact = true;      // all halvings were tried (up to 16 GPUs); else runs of neighbours only
};

// None for a single GPU. With an odd number of GPUs the halves differ by one.
std::optional<Bisection> bisection(const Machine& machine, const LinkKinds& kinds = {});

}  // namespace stepcast
