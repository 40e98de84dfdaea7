#pragma once
// What is trained on, and how: which samples each rank takes, and the hyperparameters.

#include <cstdint>
#include <vector>

#include "runtime/train/shape.hpp"

namespace stepcast::runtime {

struct TrainingData {
  int steps = 5;
  int micro_batches = 1;         // a step
  std::int64_t micro_batch = 1;  // samples of one rank
  std::int64_t seq_len = 1;      // tokens of a sample
  std::uint64_t seed = 7;        // of the initial parameters
  AdamW adam;
  Sgd sgd;
  // clip_grad_norm_'s; 0: none. Where the schedule clips, it is clipped to it.
  double max_norm = 0;
  // The loss is multiplied by it; 0: by 1,024 where the schedule unscales, else by nothing.
  double loss_scale = 0;
  // of_rank[r]: the samples of rank r, in the order in which it takes them (sampler.hpp). A batch
  // that is not full has no_sample in it.
  std::vector<std::vector<std::int64_t>> of_rank;

  std::int64_t samples_a_step() const { return micro_batches * micro_batch; }
  // The samples of a rank in a micro-batch.
  std::vector<std::int64_t> samples(int rank, int step, int micro_batch) const;
  // The samples of all ranks in one step: the batch that one rank would train on.
  std::vector<std::vector<std::int64_t>> batches() const;
};

// Samples for every rank by the sampler's rule, enough for all steps: one epoch of as many samples
// as that takes, or epoch after epoch of a smaller dataset.
struct DataSize {
  int steps = 5;
  int micro_batches = 1;
  std::int64_t micro_batch = 1;
  std::int64_t seq_len = 1;
  std::int64_t samples = 0;  // of the dataset; 0: what all steps take
};
TrainingData make_data(int ranks, const DataSize& size);
TrainingData make_data(int ranks, int steps, int micro_batches, std::int64_t micro_batch,
                       std::int64_t seq_len);

}  // namespace stepcast::runtime
