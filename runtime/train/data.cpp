#include "runtime/train/data.hpp"

#include "base/error.hpp"
#include "runtime/train/sampler.hpp"

namespace stepcast::runtime {

std::vector<std::int64_t> TrainingData::samples(int rank, int step, int which) const {
  const std::vector<std::int64_t>& all = of_rank[static_cast<std::size_t>(rank)];
  const std::int64_t first = step * samples_a_step() + which * micro_batch;
  STEPCAST_ASSERT(first + micro_batch <= static_cast<std::int64_t>(all.size()),
                  "samples for every step");
  return {all.begin() + first, all.begin() + first + micro_batch};
}

std::vector<std::vector<std::int64_t>> TrainingData::batches() const {
  std::vector<std::vector<std::int64_t>> list(static_cast<std::size_t>(steps));
  for (int s = 0; s < steps; ++s) {
    std::vector<std::int64_t>& batch = list[static_cast<std::size_t>(s)];
    for (int r = 0; r < static_cast<int>(of_rank.size()); ++r) {
      for (int m = 0; m < micro_batches; ++m) {
        const std::vector<std::int64_t> some = samples(r, s, m);
        batch.insert(batch.end(), some.begin(), some.end());
      }
    }
  }
  return list;
}

TrainingData make_data(int ranks, const DataSize& size) {
  TrainingData data;
  data.steps = size.steps;
  data.micro_batches = size.micro_batches;
  data.micro_batch = size.micro_batch;
  data.seq_len = size.seq_len;
  const std::int64_t wanted = data.samples_a_step() * size.steps;  // of a rank
  Sampler sampler;
  sampler.samples = size.samples > 0 ? size.samples : wanted * ranks;
  sampler.ranks = ranks;
  for (int r = 0; r < ranks; ++r) {
    std::vector<std::int64_t> mine;
    for (std::uint64_t epoch = 0; static_cast<std::int64_t>(mine.size()) < wanted; ++epoch) {
      const std::vector<std::int64_t> more = sampler.of_rank(r, epoch);
      mine.insert(mine.end(), more.begin(), more.end());
    }
    mine.resize(static_cast<std::size_t>(wanted));
    data.of_rank.push_back(std::move(mine));
  }
  return data;
}

TrainingData make_data(int ranks, int steps, int micro_batches, std::int64_t micro_batch,
                       std::int64_t seq_len) {
  return make_data(ranks, {steps, micro_batches, micro_batch, seq_len, 0});
}

}  // namespace stepcast::runtime
