#pragma once
// Fits the corrections of collectives (sim/collectives/corrections.hpp), class by class, on the
// rows of the fit machines: the sum of |log(forecast / measured)|, rows below 64 KiB with a weight
// of 0.3 (they say nothing of bandwidth), by coordinate search: each parameter a step up or down
// while that helps, then half the step. No random numbers: the same rows give the same figures.
//
// Which parameters are free follows from what can be seen: one node has no network step; several
// nodes have no launch of their own, which two nodes could not tell from a step; neither is seen in
// rows above 1 MiB alone; EFA's rows show no bandwidth, as AWS's tuner plugin chose what ran; hops
// in a row are seen from three nodes on; trees on two nodes take the efficiency of all where no row
// is of one.
//
// Of a class that is another with others on the network ("efa-busy") the stall alone is free, the
// rest is the other's.
//
// A class whose check machines come out worse than by NCCL's prediction alone, in either band, gets
// no correction.

#include <map>
#include <set>
#include <string>
#include <vector>

#include "validate/collectives/calls.hpp"

namespace stepcast::validate {

struct Fit {
  Corrections corrections;
  std::set<std::string> rejected;  // classes whose correction made their check machines worse
};

Fit fit(const std::vector<PublishedCall>& calls);

// data/collective-corrections.toml.
std::string to_toml(const Fit& fit, const std::vector<PublishedCall>& calls);

}  // namespace stepcast::validate
