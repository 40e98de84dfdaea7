#pragma once
// From which size on a further node hardly helps: the number of nodes n where one more adds less
// than half of what a node gives in the smallest cluster.
//
// Throughput T(n) = n B / t(n) at a fixed batch a GPU. The gain of a node is T(n+1) - T(n); its
// share is T(n0) / n0, n0 the smallest whole cluster tried. A step of 1 s that grows by 1 ms a node
// (a ring's latency): T'(n) = B / t^2 with t = 1 + n/1000, half at t = 1.414: 414 nodes.
//
// Sizes double from n0; between the last good and the first bad one they are halved. The cause is
// the part of the step that grew most. Where that is exposed communication, it says of which
// algorithm, and whether the collectives grew by latency (launches and steps: a ring has two a
// rank) or by bytes. Times come from the formula engine.
// Tested by tests/unit/advise/scaling_test.cpp and ceiling_test.cpp.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/units.hpp"
#include "sim/forecast/scenario.hpp"

namespace stepcast {

struct ScalingPoint {
  int nodes = 0;
  int gpus = 0;
  Seconds step_time = 0;
  double throughput = 0;  // samples a second, all GPUs
  double gain = 0;        // of one more node, as a part of its share
};

struct ScalingLimit {
  std::vector<ScalingPoint> points;  // by nodes
  bool found = false;                // false: not up to the last point
  ScalingPoint limit;                // the first size whose next node brings less than half
  std::string cause;                 // "tail_all_reduce": the part of the step that grew most
  Seconds grew = 0;                  // by this much, from the first point to the limit
  // Of all collectives of a step, each alone:
  std::string algorithm;     // which most of their time is spent in at the limit: "Ring"
  Seconds latency_grew = 0;  // by more steps one after another
  Seconds bytes_grew = 0;    // by more bytes, or less bandwidth
};

// "ring latency" or "ring bandwidth"; nothing where the cause is not exposed communication.
std::string reason(const ScalingLimit& limit);

// The search on a function of nodes alone, for tests: step seconds at n nodes.
ScalingLimit scaling_limit(const std::function<Seconds(int)>& step_seconds, int first_nodes,
                           int most_nodes, int gpus_a_node, double samples_a_gpu);

// Of a scenario with several nodes, to `most_nodes`.
ScalingLimit scaling_limit(const Scenario& scenario, int most_nodes);

}  // namespace stepcast
