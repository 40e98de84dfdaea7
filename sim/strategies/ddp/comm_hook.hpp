#pragma once
// How a complete bucket of n fp32 elements is averaged over the ranks: by the reducer itself, or by
// a communication hook (register_comm_hook).
//
//   none           copy-in multiplied by 1/W; all-reduce of 4n bytes
//   allreduce      copy-in copied; divide in place; all-reduce of 4n
//   fp16_compress  cast to 16 bits into a new tensor and divide it; all-reduce of 2n; copy back
//   bf16_compress  into the bucket, on the stream of the future's callback
//   powerSGD       powersgd.hpp
//
// With a hook the host pays for the Python call a bucket, and copy-in is a plain copy. All built-in
// hooks return the bucket's own tensor, so gradient_as_bucket_view needs no copy-out with them.
// Source: PyTorch default_hooks.py, reducer.cpp (docs/sources.md 1.2).
// Tested by tests/unit/strategies/ddp_hooks_test.cpp.

#include <memory>
#include <string>
#include <vector>

#include "sim/schedule/builder.hpp"
#include "sim/strategies/common/layer_walk.hpp"
#include "sim/strategies/ddp/buckets.hpp"
#include "sim/strategies/ddp/streams.hpp"

namespace stepcast::ddp {

class BucketReduction {
 public:
  virtual ~BucketReduction() = default;
  // Issued when the last gradient of bucket `index` has been copied in on the compute stream.
  // Returns the op after which `buffer` holds the average.
  virtual OpIndex launch(int index, BufferIndex buffer, LayerWalk& walk) = 0;
};

struct HookPlace {
  ScheduleBuilder& builder;
  const TrainingStep& step;
  Streams streams;
  std::string label;  // tells the buffers of two roles or layouts apart
};

// `buckets` must outlive it.
std::unique_ptr<BucketReduction> make_reduction(CommHook hook, const HookPlace& place,
                                                const std::vector<Bucket>& buckets);
// PowerSGD leaves the first start_powerSGD_iter (1000) iterations to the all-reduce hook.
CommHook hook_of_iteration(CommHook hook, bool steady);
bool has_callbacks(CommHook hook);

}  // namespace stepcast::ddp
