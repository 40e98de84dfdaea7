#pragma once
// What every schedule is compared with: one rank that trains on the whole batch, written as one
// would write it, without schedules, shards or buckets.

#include "runtime/train/shape.hpp"

namespace stepcast::runtime {

struct Trained {
  Tensors parameters;
  std::vector<double> losses;  // of each step, before its update
  std::vector<double> norms;   // of each step's gradient, squared
};

// `batches[s]` are the samples of step s, each a sequence of `seq_len` tokens. In double.
Trained train_on_one_rank(const MlpShape& shape, const AdamW& adam, std::uint64_t seed,
                          const std::vector<std::vector<std::int64_t>>& batches,
                          std::int64_t seq_len);

// The gradient of the mean loss over these samples, for the tests of the mathematics.
struct LossAndGradient {
  double loss = 0;
  Tensors gradient;
};
LossAndGradient loss_and_gradient(const MlpShape& shape, const Tensors& parameters,
                                  const std::vector<std::int64_t>& samples, std::int64_t seq_len);

}  // namespace stepcast::runtime
