#pragma once
// nn.DataParallel's loss, an op of its own between the head's forward and backward: of the gathered
// batch, or of one GPU's.
//
//   forward    logits, labels -> what backward needs (softmax minus one-hot, or where a fused loss
//              keeps the logits one log-sum-exp a token)
//   backward   that, labels -> gradient of the logits, times the gradient of this loss if others
//              count beside it

#include <cstddef>
#include <string>

#include "runtime/train/plan.hpp"

namespace stepcast::runtime {

struct LossRun {
  std::int64_t vocabulary = 0;
  std::byte* const* memory;
  double scale = 1;  // of the gradient, where this loss is the whole
  const std::string& name;
};

// Returns the mean loss of a forward, else 0.
double run_loss(const LossPlan& plan, const LossRun& run);

}  // namespace stepcast::runtime
