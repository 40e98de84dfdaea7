#pragma once
// The model of the worked examples E-10 to E-14: n blocks as units; embedding, final norm and head
// are the root's. And its costs: root all-gather 1, embedding 1, head forward 1 and backward 2,
// embedding backward 1, root reduce-scatter 1; a unit 2, 3, 6, 2; copies nothing.

#include <string>

#include "sim/strategies/strategy.hpp"

namespace stepcast::testing {

inline TrainingStep units_and_root(int blocks, StrategyKind kind) {
  Architecture a;
  a.family = Family::llama;
  a.hidden = 64;
  a.layers = blocks;
  a.heads = 4;
  a.kv_heads = 4;
  a.head_size = 16;
  a.ffn_hidden = 128;
  a.vocabulary = 256;
  TrainingStep step;
  step.model = build_model("units", a);
  step.workload.seq_len = 32;
  step.mesh = {1, 8};
  step.precision = precision_recipe("bf16-mixed");
  step.strategy.kind = kind;
  return step;
}

struct UnitCosts {
  const Schedule* schedule;
  Seconds unit_collective = 2;  // all-gather and reduce-scatter of a unit; the root's take 1
  Seconds all_reduce = 4;

  Seconds operator()(const Op& op) const {
    const std::string unit =
        op.unit < 0 ? "" : schedule->units[static_cast<std::size_t>(op.unit)].str();
    if (op.kind == OpKind::collective) {
      if (op.collective == CollectiveKind::all_reduce) return all_reduce;
      return unit == "root" ? 1 : unit_collective;
    }
    if (op.verb != Name("compute")) return 0;
    const bool forward = op.phase == Phase::forward;
    if (unit.find("layers.") == 0) return forward ? 3 : 6;
    if (unit == "embedding") return 1;
    if (unit == "head") return forward ? 1 : 2;
    return 0;  // final norm
  }
};

}  // namespace stepcast::testing
