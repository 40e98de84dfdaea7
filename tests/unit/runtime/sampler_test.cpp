// DistributedSampler's rule: who trains on what.

#include "runtime/train/sampler.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

namespace stepcast::runtime {
namespace {

using Samples = std::vector<std::int64_t>;

TEST_CASE("10 samples on 4 ranks are padded with the first two, or cut to 8") {
  Sampler sampler;
  sampler.samples = 10;
  sampler.ranks = 4;
  sampler.shuffle = false;
  CHECK(sampler.of_rank(0, 0) == Samples{0, 4, 8});
  CHECK(sampler.of_rank(1, 0) == Samples{1, 5, 9});
  CHECK(sampler.of_rank(2, 0) == Samples{2, 6, 0});
  CHECK(sampler.of_rank(3, 0) == Samples{3, 7, 1});
  sampler.drop_last = true;
  CHECK(sampler.of_rank(1, 0) == Samples{1, 5});
  CHECK(sampler.of_rank(3, 0) == Samples{3, 7});
}

TEST_CASE("fewer samples than ranks are repeated over and over") {
  Sampler sampler;
  sampler.samples = 2;
  sampler.ranks = 5;
  sampler.shuffle = false;
  CHECK(sampler.of_rank(4, 0) == Samples{0});
  CHECK(sampler.of_rank(3, 0) == Samples{1});
}

TEST_CASE("ranks are disjoint, together everything, and every epoch has another order") {
  Sampler sampler;
  sampler.samples = 24;
  sampler.ranks = 3;
  for (const std::uint64_t epoch : {0, 1, 2}) {
    std::set<std::int64_t> all;
    for (int rank = 0; rank < 3; ++rank) {
      for (const std::int64_t sample : sampler.of_rank(rank, epoch)) all.insert(sample);
    }
    CHECK(all.size() == 24);
  }
  CHECK(sampler.of_rank(0, 0) != sampler.of_rank(0, 1));
  CHECK(sampler.of_rank(0, 1) == sampler.of_rank(0, 1));
}

}  // namespace
}  // namespace stepcast::runtime
