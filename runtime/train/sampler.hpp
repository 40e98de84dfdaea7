#pragma once
// Which samples a rank trains on: the rule of PyTorch's DistributedSampler.
//
//   order    0..n-1, shuffled by (seed, epoch) if asked: the same order on every rank
//   even     drop_last = false: padded with its own beginning, over and over, to a multiple of W;
//            drop_last = true: cut to the largest multiple of W
//   rank r   elements r, r + W, r + 2W, ...
//
// 10 samples, 4 ranks: padded to 12 with 0 and 1, 3 a rank: {0,4,8} {1,5,9} {2,6,0} {3,7,1};
// drop_last: 2 a rank, 8 and 9 are left out. Without set_epoch() every epoch has the same order.
// Source: torch/utils/data/distributed.py. Tested by tests/unit/runtime/sampler_test.cpp.
// (The shuffle is not torch.randperm's: the order differs, the rule is the same.)

#include <cstdint>
#include <vector>

namespace stepcast::runtime {

struct Sampler {
  std::int64_t samples = 0;
  int ranks = 1;
  bool shuffle = true;
  bool drop_last = false;
  std::uint64_t seed = 0;

  // Of each rank, padding included.
  std::int64_t samples_per_rank() const;
  std::vector<std::int64_t> of_rank(int rank, std::uint64_t epoch) const;
};

}  // namespace stepcast::runtime
