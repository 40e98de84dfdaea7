#pragma once
// broadcast_buffers: every forward of a model with buffers begins with rank 0's.
//
// BatchNorm's running statistics are trained by no gradient, so DDP makes them equal: one coalesced
// broadcast a dtype (broadcast_coalesced.hpp), on the critical path, since the forward waits for
// it. ResNet-50: 212,480 bytes fp32 and 424 bytes int64, two broadcasts (E-29). A forward after a
// backward without sync (no_sync) has none. Under join() the ranks first agree on the highest rank
// at work by an all-reduce (MAX) that the host reads.
// Source: PyTorch distributed.py, _sync_buffers (docs/sources.md 1.2).
// Tested by tests/unit/strategies/ddp_buffer_sync_test.cpp.

#include <vector>

#include "sim/schedule/builder.hpp"
#include "sim/strategies/ddp/broadcast_coalesced.hpp"
#include "sim/strategies/strategy.hpp"

namespace stepcast::ddp {

// The model's buffers on the GPU: one persistent allocation a dtype.
class ModuleBuffers {
 public:
  ModuleBuffers(ScheduleBuilder& builder, const Model& model);
  const std::vector<Tensor>& tensors() const { return tensors_; }
  const std::vector<View>& views() const { return views_; }

 private:
  std::vector<Tensor> tensors_;
  std::vector<View> views_;
};

// Whether the forward of this micro-batch broadcasts them: the backward before it was reduced. That
// before the first micro-batch is the last of the step before.
bool syncs_buffers(const TrainingStep& step, int micro_batch);

}  // namespace stepcast::ddp
