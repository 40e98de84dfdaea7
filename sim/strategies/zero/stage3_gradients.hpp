#pragma once
// Stage 3: the way of a gradient from backward into this rank's partition.
//
// A module's gradients are copied into the bucket on the reduce stream, one by one; the one that
// does not fit flushes what is there (ipg_bucket.hpp). A flush interleaves the bucket by rank with
// the padding of each parameter, divides by W, makes ONE reduce-scatter and copies the result into
// the partition, in every micro-batch (added to it from the second on). The host blocks with more
// than two reductions outstanding and at the end of every backward.
//
// Source: DeepSpeed stage3.py (docs/sources.md 1.6). Tested by
// tests/unit/strategies/zero3_test.cpp (E-18).

#include <cstdint>
#include <deque>
#include <vector>

#include "sim/schedule/builder.hpp"
#include "sim/strategies/common/layer_walk.hpp"
#include "sim/strategies/common/view_list.hpp"
#include "sim/strategies/zero/ipg_bucket.hpp"
#include "sim/strategies/zero/modules.hpp"

namespace stepcast::zero {

class Stage3Gradients {
 public:
  struct Streams {
    StreamIndex compute = 0;
    StreamIndex reduce = 0;  // = compute without overlap_comm
    CommIndex world = 0;
  };
  // `owned`: elements of this rank.
  Stage3Gradients(ScheduleBuilder& builder, const TrainingStep& step, LayerWalk& walk,
                  const ModulePlan& plan, Streams streams, std::int64_t owned);

  void begin_backward(int micro_batch);
  // Allocates what the module's backward writes; empty where it has no gradients.
  ViewList produced_by(int module);
  // They are there: into the bucket.
  void arrive(int module, int micro_batch);
  void end_backward(int micro_batch);

  View partition() const { return builder_.whole(partition_); }

 private:
  void plan_modules(const ModulePlan& plan);
  void declare_buckets();
  void flush();
  std::int64_t numel(int parameter) const;
  Bytes bytes_of(int parameter) const;
  std::int64_t padded_elements(const Flush& flush) const;
  OpIndex run(Name verb, Bytes read, Bytes written, std::span<const View> reads,
              std::span<const View> writes);

  ScheduleBuilder& builder_;
  const TrainingStep& step_;
  LayerWalk& walk_;
  const ModulePlan& plan_;
  Streams streams_;
  BufferIndex partition_ = -1;
  BufferIndex bucket_ = -1;
  BufferIndex interleaved_ = -1;
  BufferIndex scattered_ = -1;
  std::vector<BufferIndex> gradients_;        // by module
  std::vector<std::vector<int>> parameters_;  // by module: whose gradients come with it
  std::vector<int> arrival_;                  // parameters as their gradients arrive
  std::vector<Flush> flushes_;
  std::size_t next_flush_ = 0;
  Bytes filled_ = 0;
  Bytes partition_filled_ = 0;
  std::deque<OpIndex> reductions_;  // outstanding
};

}  // namespace stepcast::zero
