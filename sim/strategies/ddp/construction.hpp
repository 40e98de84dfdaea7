#pragma once
// DistributedDataParallel's constructor, before the first step:
//
//   all-gather of the parameter count (one int64 a rank), read by the host
//   broadcast of rank 0's sizes and strides (int64, two a dimension), read by the host
//   broadcast of all parameters and buffers from rank 0 (broadcast_coalesced.hpp)
//   the reducer: its first buckets, a hook a parameter
//
// Source: PyTorch distributed.py, reducer.cpp verify_params_across_processes (docs/sources.md 1.2).
// Tested by tests/unit/strategies/ddp_first_steps_test.cpp.

#include <string>
#include <vector>

#include "sim/schedule/builder.hpp"
#include "sim/strategies/common/layer_walk.hpp"
#include "sim/strategies/ddp/buckets.hpp"
#include "sim/strategies/ddp/streams.hpp"

namespace stepcast::ddp {

// The ops of the StepProgram "construction" but for the reducer's buckets. `views` and `tensors`
// are what is broadcast: the parameters, then the model's buffers.
void construct(ScheduleBuilder& builder, const TrainingStep& step, LayerWalk& walk, Streams streams,
               const std::vector<Tensor>& tensors, const std::vector<View>& views,
               const std::string& label);

}  // namespace stepcast::ddp
