#pragma once
// A small model whose steps are replayed.

#include "sim/strategies/strategy.hpp"

namespace stepcast {

inline TrainingStep eight_units(StrategyKind kind) {
  Architecture a;
  a.family = Family::llama;
  a.hidden = 1024;
  a.layers = 8;
  a.heads = 8;
  a.kv_heads = 8;
  a.head_size = 128;
  a.ffn_hidden = 4096;
  a.vocabulary = 256;
  TrainingStep step;
  step.model = build_model("eight", a);
  step.workload.seq_len = 8;
  step.mesh = {1, 8};
  step.precision = precision_recipe("bf16-mixed");
  step.strategy.kind = kind;
  return step;
}

}  // namespace stepcast
