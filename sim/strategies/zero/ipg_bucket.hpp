#pragma once
// DeepSpeed's gradient bucket (the "independent parallel gradient" bucket) of stages 1 and 2.
//
// A gradient that becomes ready and would push the bucket over reduce_bucket_size flushes it
// *first* and is then copied in: so a flush is triggered by the next gradient, not by a bucket that
// is full. A parameter larger than the bucket is reduced alone and not copied.
//
//   four layers of one size, a bucket of two: layers 4 and 3 fill it; layer 2's gradient flushes
//   {4,3}, layer 1's joins 2; the end of backward flushes {2,1}
//
// Source: DeepSpeed stage_1_and_2.py (docs/sources.md 1.5). Tested by
// tests/unit/strategies/zero_test.cpp (E-9).

#include <cstdint>
#include <span>
#include <vector>

namespace stepcast::zero {

struct Flush {
  std::vector<int> parameters;
  std::int64_t elements = 0;
  bool alone = false;     // a parameter larger than the bucket, reduced where it is
  int triggered_by = -1;  // the parameter whose arrival flushes; -1: the end of backward
};

// Walks gradients in their order of arrival (indices into `numels`).
std::vector<Flush> plan_flushes(std::span<const std::int64_t> numels, std::span<const int> arrival,
                                std::int64_t bucket_elements);

}  // namespace stepcast::zero
