#pragma once
// The rebuild of the buckets: in the second forward (third with static_graph) rank 0 tells the
// others the order in which its gradients became ready. Two broadcasts of int32, parameters + 1 and
// then the number of buckets, each read back by the host, blocking (GPT-2: 149 and 13, E-28). Then
// the old buckets are dropped and the new ones allocated.
// Source: PyTorch reducer.cpp, rebuild_buckets and sync_bucket_indices (docs/sources.md 1.2).
// Tested by tests/unit/strategies/ddp_test.cpp (E-28) and ddp_first_steps_test.cpp.

#include "sim/strategies/ddp/reducer.hpp"

namespace stepcast::ddp {

void rebuild_buckets(ScheduleBuilder& builder, const TrainingStep& step, Streams streams,
                     const std::string& label, Reducer& whole, Reducer& rebuilt);

}  // namespace stepcast::ddp
