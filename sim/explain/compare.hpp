#pragma once
// Two steps side by side, and where their difference comes from: by cause (what the time goes into)
// and by aspect (what was exchanged). Both add up to the difference of the step times exactly.
//
// By aspect, one is exchanged after the other, from A to B, and the step is forecast anew each
// time:
//
//   GPU        its kernels: A's machine with B's GPUs, everything that communicates stays A's
//   network    NICs' speed, latency class and fabric of B
//   node       what is left of the machine: NVLink, PCIe, number of GPUs and NICs
//   nodes      how many
//   model, batch, strategy, software, data loading   the keys of a scenario that differ
//
// The order matters where aspects work together (a faster GPU hides less communication); it is the
// order above. An aspect that cannot be exchanged alone (an option that the other strategy does not
// have) goes together with the next: "batch and strategy". Tested by
// tests/unit/explain/compare_test.cpp.

#include <string>
#include <vector>

#include "sim/forecast/scenario.hpp"
#include "sim/report/report.hpp"

namespace stepcast {

struct CauseDifference {
  std::string cause;  // "compute", "exposed: tail all reduce"
  Seconds a = 0, b = 0;
};

struct AspectDifference {
  std::string aspect;      // "GPU", "network", "batch and strategy"
  std::string changes;     // "NVIDIA A100 -> NVIDIA H100", "micro_batch 1 -> 4"
  Seconds step = 0;        // after it was exchanged
  Seconds difference = 0;  // by it
  double throughput = 0;   // samples a second and GPU after it
};

struct StepComparison {
  std::string name_a, name_b;
  std::string command_a, command_b;
  Report a, b;
  std::vector<CauseDifference> causes;    // largest difference first
  std::vector<AspectDifference> aspects;  // in the order of exchange; none of no difference
};

// Throws InputError.
StepComparison compare_steps(const Scenario& a, const Scenario& b, const std::string& name_a,
                             const std::string& name_b);

std::string to_text(const StepComparison& comparison);
std::string to_json(const StepComparison& comparison);  // schema "stepcast.compare/1"

}  // namespace stepcast
