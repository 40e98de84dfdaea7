#pragma once
// The published measurements of collectives (data/calls.csv) on the machines that the catalog
// describes (data/machines.toml), each with what NCCL's model says of it.
//
// Who is fitted on and who checks is decided by a rule that sees no time: of the machines of a
// class in alphabetical order, the second, the fourth and so on are fitted on (at most half), the
// others check. A machine on one node and the same on several are of two classes. Classes with one
// machine, links of no class and paths that their publishers or readers call unhealthy are apart:
// listed, and under no bar. What was published and is not compared at all says why
// (data/left-out.toml).

#include <string>
#include <vector>

#include "sim/collectives/corrections.hpp"

namespace stepcast::validate {

enum class SiteRole { fit, check, apart };

// "efa-busy": a class that is one cluster's network while others use it. It is fitted on that
// cluster alone, so nothing checks it and the cluster is apart. "efa" is what it is when idle.
bool is_busy(const std::string& network_class);
std::string idle_class(const std::string& network_class);

struct PublishedCall {
  std::string machine, id, network_class;
  SiteRole role = SiteRole::check;
  std::string why_apart;  // "" where it is not
  double harness_us = 0;  // what the timing itself adds, no part of a forecast
  std::int64_t bytes = 0;
  double measured_us = 0;
  PredictedCall predicted;

  double tuner_us() const { return predicted.latency_us + predicted.wire_us; }
};

std::vector<PublishedCall> published_calls();

// Whether a correction is fitted on it: the machines of SiteRole::fit, and a busy class's own.
bool fitted_on(const PublishedCall& call);

struct LeftOut {
  std::string source;
  int rows = 0;
  std::string why;
};
std::vector<LeftOut> left_out();

}  // namespace stepcast::validate
