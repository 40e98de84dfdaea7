// A composed block's MLP, experts and state-space mixers.

#include <algorithm>

#include "models/composed_block.hpp"

namespace stepcast {

void ComposedBlock::mixer() {
  static const Name scan{"scan"}, scan_back{"scan.backward"};
  const std::int64_t last = count(Part::linear) - 1;
  const std::int64_t inner = z_.tokens * k_.state;
  std::int64_t number = 0;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const ModuleTensor& t = tensors_[i];
    if (t.bias || k_.modules[static_cast<std::size_t>(t.module)].part != Part::linear) continue;
    if (number++ == last) {
      std::vector<BackwardKernel> backward{
          marks_nothing(elementwise(z_, scan_back, 10 * inner, 6 * inner, 10))};
      append(backward.back().ready, Part::norm);
      append(backward.back().ready, Part::tensor);
      tape_.pair({elementwise(z_, scan, 4 * inner, 2 * inner, 6)}, std::move(backward));
      tape_.keep(z_.element * 4 * inner);
    }
    const bool biased = i + 1 < tensors_.size() && tensors_[i + 1].bias;
    tape_.linear("mixer_proj", t.shape[1], t.shape[0], static_cast<int>(i),
                 biased ? static_cast<int>(i) + 1 : -1);
    if (number <= last) tape_.keep(z_.element * z_.tokens * t.shape[0]);
  }
}

// SwiGLU or GELU over the inner elements (block_work.cpp has the counts).
void ComposedBlock::activation(std::int64_t inner, bool gated) {
  static const Name name{"activation"}, back{"activation.backward"};
  Kernel forward;
  Kernel backward;
  if (!gated) {
    forward = elementwise(z_, name, inner, inner);
    backward = elementwise(z_, back, 2 * inner, inner);
  } else if (fused_) {
    forward = elementwise(z_, name, 2 * inner, inner);
    backward = elementwise(z_, back, 3 * inner, 2 * inner);
  } else {
    forward = elementwise(z_, name, 3 * inner, 2 * inner, 2);
    backward = elementwise(z_, back, 6 * inner, 3 * inner, 3);
  }
  tape_.pair(forward, backward);
  again_.push_back(forward);
  const Bytes outputs = z_.element * inner * (gated && !fused_ ? 2 : 1);
  tape_.keep(z_.element * inner * (gated ? 2 : 1) + outputs);
  activation_outputs_ += outputs;
  down_inputs_ += z_.element * inner;
  alive_inner_ += z_.element * inner * (gated ? 3 : 2);
}

void ComposedBlock::mlp() {
  if (has_experts()) experts();
  if (!has(Part::down)) return;
  const bool gated = has(Part::gate) || has(Part::gate_up);
  if (has(Part::gate_up)) {
    linear("gate_up_proj", Part::gate_up);
  } else {
    if (has(Part::gate)) linear("gate_proj", Part::gate);
    linear("up_proj", Part::up);
  }
  activation(z_.tokens * k_.ffn, gated);
  linear("down_proj", Part::down);
}

void ComposedBlock::experts() {
  static const Name choose{"top_k"}, choose_back{"top_k.backward"};
  static const Name permute{"permute"}, permute_back{"permute.backward"};
  static const Name combine{"combine"}, combine_back{"combine.backward"};
  const std::int64_t chosen = z_.tokens * k_.experts_per_token;
  const std::int64_t rows = ceil_div(chosen, k_.experts);
  const std::int64_t copied = chosen * z_.hidden;
  const std::int64_t routed = z_.tokens * k_.experts;
  const bool gated = has(Part::expert_gate) || has(Part::experts_gate_up);
  shared_experts();
  linear("router", Part::router);
  tape_.pair(memory_bound(choose, z_.dtype, (z_.element + 4) * routed + 8 * chosen,
                          4 * routed + (8 + 4 + z_.element) * chosen, 4),
             memory_bound(choose_back, z_.dtype, 8 * routed + 12 * chosen,
                          8 * routed + z_.element * routed, 4));
  tape_.pair(elementwise(z_, permute, copied, copied, 2),
             elementwise(z_, permute_back, copied, z_.tokens * z_.hidden, 1));
  if (has(Part::experts_gate_up)) {
    std::vector<int> ready = all_of(Part::experts_gate_up_bias);
    append(ready, Part::experts_gate_up);
    tape_.grouped("experts_gate_up", z_.hidden, 2 * k_.expert_ffn, rows, k_.experts,
                  std::move(ready));
  } else {
    if (has(Part::expert_gate)) {
      tape_.fork(2, copied, z_.element);
      tape_.grouped("experts_gate", z_.hidden, k_.expert_ffn, rows, k_.experts,
                    all_of(Part::expert_gate));
    }
    tape_.grouped("experts_up", z_.hidden, k_.expert_ffn, rows, k_.experts,
                  all_of(Part::expert_up));
  }
  activation(chosen * k_.expert_ffn, gated);
  if (has(Part::experts_down)) {
    std::vector<int> ready = all_of(Part::experts_down_bias);
    append(ready, Part::experts_down);
    tape_.grouped("experts_down", k_.expert_ffn, z_.hidden, rows, k_.experts, std::move(ready));
  } else {
    tape_.grouped("experts_down", k_.expert_ffn, z_.hidden, rows, k_.experts,
                  all_of(Part::expert_down));
  }
  tape_.pair(fused_ ? elementwise(z_, combine, copied, width_)
                    : elementwise(z_, combine, 3 * copied, 2 * copied, 2),
             fused_ ? elementwise(z_, combine_back, 2 * copied, copied)
                    : elementwise(z_, combine_back, 5 * copied, 3 * copied, 4));
  routed_ = 2 * z_.element * copied + 4 * routed + (8 + z_.element) * chosen;
  tape_.keep(routed_);
}

void ComposedBlock::shared_experts() {
  if (!has(Part::shared_down)) return;
  static const Name add{"shared_add"}, add_back{"shared_add.backward"};
  static const Name weigh{"shared_switch"}, weigh_back{"shared_switch.backward"};
  if (has(Part::shared_gate)) linear("shared_gate_proj", Part::shared_gate);
  if (has(Part::shared_up)) linear("shared_up_proj", Part::shared_up);
  activation(z_.tokens * k_.shared_ffn, has(Part::shared_gate));
  linear("shared_down_proj", Part::shared_down);
  if (has(Part::shared_switch)) {
    linear("shared_expert_gate", Part::shared_switch);
    tape_.pair(elementwise(z_, weigh, width_, width_, 2),
               elementwise(z_, weigh_back, 2 * width_, width_, 3));
    tape_.keep(z_.element * width_);
  }
  tape_.pair({elementwise(z_, add, 2 * width_, width_)}, {});  // to what the experts made
}

}  // namespace stepcast
