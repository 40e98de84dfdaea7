#pragma once
// Which gradients share one all-reduce: DDP's bucket assignment, to the byte.
//
// Tensors are walked in the given order; each (dtype, device) has its own open bucket and its own
// place in the list of limits. A tensor is added first, *then* the bucket closes if it has reached
// the limit. So a bucket overshoots by up to one tensor, tensors are never split, and a tensor
// larger than the limit is not isolated: it closes whatever is open.
//
//   limits 1 MiB then 25 MiB, eight tensors of 4 MiB:
//     {4}  closes at the first limit;  {4 4 4 4 4 4 4}: 24 < 25, the seventh closes it at 28 MiB
//
// Two callers, two orders of the result (source: PyTorch reducer.cpp, logger of the rebuilt
// buckets; checked against 300 random cases run with PyTorch 1.13.1, see docs/sources.md 2.1):
//   construction  definition order; buckets sorted by their smallest index, then the list is
//                 reversed (inside a bucket the order stays)
//   rebuild       gradient-ready order of the first iteration; buckets in the order of closing,
//                 leftovers appended
// Tested by tests/unit/strategies/ddp_buckets_test.cpp (E-1 to E-7).

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "base/units.hpp"

namespace stepcast::ddp {

struct Tensor {
  Bytes bytes = 0;
  Dtype dtype = Dtype::fp32;
  bool sparse = false;  // expects a sparse gradient: a bucket of its own
};

struct Bucket {
  std::vector<int> tensors;  // indices into the caller's list
  Bytes bytes = 0;
  Dtype dtype = Dtype::fp32;
};

// The n-th bucket of a key closes at limits[n]; the last limit repeats.
using Limits = std::vector<Bytes>;

inline constexpr Bytes no_limit = std::numeric_limits<Bytes>::max();
inline constexpr Bytes default_first_bucket = 1 * mib;  // kDefaultFirstBucketBytes
inline constexpr Bytes default_cap = 25 * mib;

// `order` lists indices into `tensors` as they are walked; buckets come in the order of closing.
std::vector<Bucket> assign(std::span<const Tensor> tensors, std::span<const int> order,
                           const Limits& limits);

// As the constructor does it: definition order, sorted by smallest index, reversed.
std::vector<Bucket> construction_buckets(std::span<const Tensor> tensors, const Limits& limits);

// As the rebuild of the second forward does it. `small_last` (DDP_SET_LAST_BUCKET_CAP=1) walks the
// ready order from its end and reverses the list of buckets, so that the small limit holds for the
// bucket that is reduced last, whose all-reduce nothing hides.
std::vector<Bucket> rebuilt_buckets(std::span<const Tensor> tensors,
                                    std::span<const int> ready_order, const Limits& limits,
                                    bool small_last = false);

// The layout of every iteration: which one depends on the mode.
enum class Mode : std::uint8_t {
  standard,      // iteration 0: one bucket a key; from 1: rebuilt
  static_graph,  // iterations 0 and 1: one bucket; from 2: rebuilt
  find_unused,   // construction layout with the limits, never rebuilt
  pytorch_1_4,   // the same: it knows no rebuild
};
std::vector<Bucket> buckets_of_iteration(Mode mode, int iteration, std::span<const Tensor> tensors,
                                         std::span<const int> ready_order, const Limits& limits,
                                         bool small_last = false);

// [first, cap]: an explicit bucket_cap_mb makes the first bucket as large as the rest (PyTorch
// since 2026); `older_rule` keeps the 1 MiB first bucket (PyTorch 1.13).
Limits limits_for(double cap_mib, bool explicit_cap, bool older_rule = false);
// One limit a bucket (bucket_cap_mb_list); the last one repeats.
Limits limits_from_list(std::span<const double> caps_mib);

}  // namespace stepcast::ddp
