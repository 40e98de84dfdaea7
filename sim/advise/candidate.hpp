#pragma once
// One strategy tried on the user's model, machine and batch: what a GPU holds at its peak, by what
// it is for, and how long the step takes.

#include <string>
#include <vector>

#include "base/units.hpp"
#include "sim/forecast/scenario.hpp"

namespace stepcast {

struct Candidate {
  std::string name;         // "ddp", "shard_grad_op", "full_shard", "hybrid_shard"
  std::string also;         // what others call it
  Scenario scenario;        // to simulate it
  std::string precision;    // its recipe
  std::string role;         // of the GPU that holds most
  Bytes peak = 0;           // on that GPU, everything
  Bytes capacity = 0;       // of it
  Bytes state = 0;          // parameters, gradients, optimizer, buckets: at the peak
  Bytes communication = 0;  // gathered parameters, inputs and outputs of collectives
  Bytes activations = 0;    // kept and short-lived, logits
  Bytes overhead = 0;       // CUDA context, NCCL
  Bytes persistent = 0;     // between steps, without overhead
  Bytes sharded_state = 0;  // gradients and optimizer of the persistent state
  bool fits() const { return peak <= capacity; }

  // Only of candidates that were timed.
  Seconds step_time = 0;
  Seconds exposed = 0;             // communication that nothing hid
  Seconds exposed_all_gather = 0;  // of it
};

// The scenario with another strategy: options of the old one are dropped, and the precision where
// the new strategy has no such recipe.
Scenario with_strategy(const Scenario& scenario, const std::string& name);

// Memory only. `name` is one of the four of Candidate::name.
Candidate candidate(const Scenario& scenario, const std::string& name);
// Adds the times: one simulated step with the scenario's engine.
void time(Candidate& candidate);

}  // namespace stepcast
