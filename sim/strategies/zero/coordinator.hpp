#pragma once
// DeepSpeed stage 3's coordinator: which parameters are gathered when, and which are kept.
//
// Iteration 1 records the order in which modules run (a trace): every module's parameters are
// gathered on demand and released after each use. From iteration 2 on, before a module runs:
//
//   1. its parameters that are not there are gathered (on demand: exposed), coalesced in one call
//   2. the prefetcher takes parameters from the trace until it has
//      min(max_live - live, prefetch_bucket) elements; the last one may overshoot; those that are
//      still there are skipped; the rest are gathered in one call
//   and after it has run, its parameters are released, except
//      - those the prefetcher has gathered for a later use
//      - those used again within max_reuse_distance elements of the trace
//
// So with the defaults a model below about 0.5e9 parameters is gathered once. Example, four modules
// of 20 M elements, forward 0 1 2 3 and backward 3 2 1 0:
//   bucket 2e7, reuse 0:  fetch 0, prefetch 1, 2, 3, 2, fetch 3 (exposed), prefetch 1, 0
//   defaults:             fetch 0, prefetch {1 2 3}, nothing in backward
//
// This file decides; stage3.cpp turns decisions into ops. Source: DeepSpeed
// partitioned_param_coordinator.py (docs/sources.md 1.6). Tested by
// tests/unit/strategies/zero3_test.cpp (E-26).

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

namespace stepcast::zero {

struct Fetch {
  std::vector<int> on_demand;  // parameters
  std::vector<int> prefetch;
};

class Coordinator {
 public:
  struct Limits {
    std::int64_t prefetch_bucket = 50'000'000;
    std::int64_t max_live = 1'000'000'000;
    std::int64_t max_reuse_distance = 1'000'000'000;
  };
  // `numels` by parameter.
  Coordinator(std::vector<std::int64_t> numels, Limits limits);

  void begin_step();
  // A module is about to run; `parameters` are those it gathers.
  Fetch before(std::span<const int> parameters);
  // It has run: the parameters to release now.
  std::vector<int> after(std::span<const int> parameters);
  // The optimizer runs: everything that is still there goes.
  std::vector<int> end_step();

  bool recording() const { return recording_; }

 private:
  struct Traced {
    int parameter = 0;
    int position = 0;  // of its module in the trace
  };

  std::vector<std::int64_t> numels_;
  Limits limits_;
  bool recording_ = true;
  std::vector<std::vector<int>> trace_;  // parameters of every module, in the order they ran
  std::deque<Traced> queue_;
  std::vector<bool> available_;
  std::vector<int> fetched_for_;  // latest position that a parameter was prefetched for
  std::int64_t live_ = 0;
  int position_ = 0;
};

}  // namespace stepcast::zero
