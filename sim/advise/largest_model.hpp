#pragma once
// The largest model of the same kind that each strategy holds on this GPU: the layers of the user's
// architecture are varied, everything else (width, batch, sequence, checkpointing, GPUs) stays.
//
// Beside it the rule of thumb: capacity / 16 bytes a parameter (DDP's states), times the shards of
// a sharded strategy. On 80 GB that is 5.0e9 under DDP; what is left after activations, DDP's
// buckets, the autocast copies and the CUDA context is 3 to 4e9.
//
// Found by false position on the number of layers, about five tries, each a schedule and its
// replay. Tested by tests/unit/advise/largest_model_test.cpp.

#include <cstdint>
#include <string>
#include <vector>

#include "base/units.hpp"
#include "sim/forecast/scenario.hpp"

namespace stepcast {

struct LargestModel {
  std::string strategy;         // Candidate::name
  std::int64_t parameters = 0;  // 0: not even one layer fits
  std::int64_t layers = 0;
  double by_states_alone = 0;  // capacity / bytes of state a parameter on one GPU
  bool beyond = false;         // more than the most that was tried: 16,384 layers
};

// Empty for models that are not a stack of equal layers.
std::vector<LargestModel> largest_models(const Scenario& scenario, int gpus, int nodes);

}  // namespace stepcast
