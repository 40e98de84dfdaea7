#include "runtime/train/sampler.hpp"

#include <numeric>
#include <random>
#include <utility>

#include "base/error.hpp"
#include "base/units.hpp"

namespace stepcast::runtime {

std::int64_t Sampler::samples_per_rank() const {
  return drop_last ? samples / ranks : ceil_div(samples, ranks);
}

std::vector<std::int64_t> Sampler::of_rank(int rank, std::uint64_t epoch) const {
  STEPCAST_ASSERT(samples >= 1 && rank >= 0 && rank < ranks, "a rank of the sampler");
  std::vector<std::int64_t> order(static_cast<std::size_t>(samples));
  std::iota(order.begin(), order.end(), 0);
  if (shuffle) {
    // Fisher and Yates with a fixed generator: std::shuffle's order is the library's own affair.
    std::mt19937_64 random(seed + epoch);
    for (std::size_t i = order.size(); i-- > 1;) {
      std::swap(order[i], order[random() % (i + 1)]);
    }
  }
  std::vector<std::int64_t> mine;
  for (std::int64_t i = 0; i < samples_per_rank(); ++i) {
    const std::int64_t at = rank + i * ranks;
    mine.push_back(order[static_cast<std::size_t>(at % samples)]);
  }
  return mine;
}

}  // namespace stepcast::runtime
