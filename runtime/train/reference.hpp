#pragma once
// What every schedule is compared with: one rank that trains on the whole batch, written as one
// would write it, without schedules, shards or buckets.

#include "runtime/train/data.hpp"
#include "runtime/train/shape.hpp"

namespace stepcast::runtime {

struct Trained {
  Tensors parameters;
  std::vector<double> losses;  // of each step, before its update
  std::vector<double> norms;   // of each step's gradient, squared, before it is clipped
};

// `batches[s]` are the samples of step s, each a sequence of `seq_len` tokens. In double.
Trained train_on_one_rank(const MlpShape& shape, const AdamW& adam, std::uint64_t seed,
                          const std::vector<std::vector<std::int64_t>>& batches,
                          std::int64_t seq_len);

// How much a rank's mean gradient counts, and the tensors that have none on it. DDP on W ranks: 1/W
// each; a rank that has run out of data: 0. A tensor that no rank has a gradient of is not updated.
struct RankShare {
  double weight = 0;
  std::vector<bool> skips;  // by tensor; empty: none
};
std::vector<RankShare> equal_shares(int ranks);

// The same with another optimizer, with clipping (data.max_norm), and with ranks that count
// differently: what the mathematics says of a step whose gradient is the sum over ranks of
// weight x the mean over the rank's micro-batches of the gradient of their mean loss.
Trained train_on_one_rank(const MlpShape& shape, const TrainingData& data, UpdateRule rule,
                          const std::vector<RankShare>& shares);

// The gradient of the mean loss over these samples, for the tests of the mathematics.
struct LossAndGradient {
  double loss = 0;
  Tensors gradient;
};
LossAndGradient loss_and_gradient(const MlpShape& shape, const Tensors& parameters,
                                  const std::vector<std::int64_t>& samples, std::int64_t seq_len);

}  // namespace stepcast::runtime
