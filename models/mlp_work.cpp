// A residual block without attention: h' = h + W2 tanh(W1 h + b1) + b2.
//
// Backward needs the block's input (kept by the block below) and tanh's result a (T f elements):
// from them come W2's gradient g^T a, dz = (g W2)(1 - a^2), W1's gradient dz^T h and the input's
// gradient g + dz W1. Under checkpointing a is made again, which is all of the forward but the last
// product. Tested by tests/unit/models/mlp_test.cpp.

#include "models/fp8.hpp"
#include "models/layout.hpp"
#include "models/work_parts.hpp"

namespace stepcast {
namespace {

struct Names {
  LinearNames up{"up"}, down{"down"};
  Name activation{"tanh"}, activation_backward{"tanh.backward"};
  Name residual{"residual_add"}, add_gradients{"grad_add"};
};

const Names& names() {
  static const Names instance;
  return instance;
}

}  // namespace

LayerWork mlp_block_work(const Sizes& z) {
  const BlockLayout layout = block_layout(*z.architecture);
  const Linear up{names().up, z.hidden, z.ffn, layout.at(Role::up_weight),
                  layout.at(Role::up_bias)};
  const Linear down{names().down, z.ffn, z.hidden, layout.at(Role::down_weight),
                    layout.at(Role::down_bias)};
  const std::int64_t width = z.tokens * z.hidden;
  const std::int64_t inner = z.tokens * z.ffn;
  LayerWork work;
  linear_forward(z, up, work.forward);
  work.forward.push_back(elementwise(z, names().activation, inner, inner));
  const std::size_t again = work.forward.size();
  linear_forward(z, down, work.forward);
  work.forward.push_back(elementwise(z, names().residual, 2 * width, width));

  linear_backward(z, down, work.backward);
  work.backward.push_back(
      marks_nothing(elementwise(z, names().activation_backward, 2 * inner, inner)));
  linear_backward(z, up, work.backward);
  work.backward.push_back(marks_nothing(elementwise(z, names().add_gradients, 2 * width, width)));

  Fp8Bytes fp8;
  fp8.add(z, up);
  fp8.add(z, down);
  const Bytes kept = z.element * inner + fp8.inputs;  // a
  work.output = z.stream * width;
  work.forward_workspace = z.element * inner + fp8.forward_workspace;
  work.backward_workspace = z.element * inner + fp8.backward_workspace;  // dz
  const Bytes copies =
      (z.casts ? z.element * (2 * z.hidden * z.ffn - fp8.elements) : 0) + fp8.weights;
  if (z.workload->checkpointing == Checkpointing::none) {
    work.weight_copies = copies;
    work.saved_activations = work.output + kept + copies;
    return work;
  }
  const bool stops_early = z.workload->recompute_early_stop;
  work.recompute.assign(work.forward.begin(),
                        work.forward.begin() +
                            static_cast<std::ptrdiff_t>(stops_early ? again : work.forward.size()));
  work.saved_activations = work.output;
  work.recomputed_activations = kept + copies;
  return work;
}

}  // namespace stepcast
