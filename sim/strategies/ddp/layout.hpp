#pragma once
// Which buckets each iteration has, and what the iterations before the steady one are.
//
//                  first                       second            third            steady
//   default        one bucket                  rebuild           .                rebuilt
//   static_graph   one bucket, hooks only      one bucket        rebuild          rebuilt
//                  count: all after backward
//   find_unused    construction layout         .                 .                the same
//   pytorch-1.4    construction layout         .                 .                the same
//
// Limits of the buckets: [1 MiB, 25 MiB]; an explicit bucket_cap_mb holds for the first bucket too
// in current PyTorch, not in 1.13 or 1.4 (BucketRule); bucket_cap_mb_list gives one a bucket.
// ResNet-18 at 35 MiB: 2,052,000 + 38,297,600 + 6,408,448 bytes by the older rule, 37,988,256 +
// 8,769,792 by the current one. Source: PyTorch reducer.cpp, distributed.py
// (docs/sources.md 1.2, 2.1). Tested by tests/unit/strategies/ddp_buckets_test.cpp (E-1 to E-6,
// V34) and ddp_first_steps_test.

#include <span>
#include <vector>

#include "sim/strategies/ddp/buckets.hpp"
#include "sim/strategies/strategy.hpp"

namespace stepcast::ddp {

struct Iteration {
  Name name;              // of its StepProgram
  int index = 0;          // counted from 0
  bool rebuilds = false;  // its forward rebuilds the buckets
  bool delayed = false;   // static_graph's first: hooks only count
};

Mode mode_of(const StrategyOptions& options);

// The StepPrograms to build; the steady one only, unless the first ones are asked for.
std::vector<Iteration> iterations(const StrategyOptions& options, bool first_steps);

Limits limits_of(const StrategyOptions& options);

// The gradients as the reducer sees them.
std::vector<Tensor> gradient_tensors(const TrainingStep& step);

std::vector<Bucket> layout(const TrainingStep& step, std::span<const int> ready_order,
                           int iteration);

}  // namespace stepcast::ddp
