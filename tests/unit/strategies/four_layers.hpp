#pragma once
// The model of E-8 and E-9: four layers of one 10 MiB fp32 tensor each; forward 2 and backward 4 a
// layer, 5 per 10 MiB of a collective, everything else nothing.

#include <string>
#include <vector>

#include "sim/strategies/strategy.hpp"

namespace stepcast::testing {

inline constexpr Bytes layer_bytes = 10 * mib;

inline TrainingStep four_layers(StrategyKind kind) {
  std::vector<Parameter> tensors;
  for (const char* name : {"l1", "l2", "l3", "l4"}) {
    tensors.push_back({Name(std::string(name) + ".weight"), {layer_bytes / 4}});
  }
  TrainingStep step;
  step.model = model_of_tensors(tensors);
  step.mesh = {8, 1};
  step.precision = precision_recipe("fp32");
  step.strategy.kind = kind;
  return step;
}

// The model of E-1, E-3 and E-4: eight layers of 4 MiB, under DDP.
inline TrainingStep eight_layers() {
  std::vector<Parameter> tensors;
  for (int i = 1; i <= 8; ++i) tensors.push_back({Name("l" + std::to_string(i)), {mib}});
  TrainingStep step = four_layers(StrategyKind::ddp);
  step.model = model_of_tensors(tensors);
  return step;
}

inline Seconds four_layer_cost(const Op& op) {
  if (op.kind == OpKind::collective && op.phase == Phase::backward) {
    return 5.0 * static_cast<double>(bytes_of(op)) / static_cast<double>(layer_bytes);
  }
  if (op.verb == Name("compute")) return op.phase == Phase::forward ? 2.0 : 4.0;
  return 0.0;
}

}  // namespace stepcast::testing
