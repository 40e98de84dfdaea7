#pragma once
// The optimizer step: AdamW on the parameters (or the shard of them) that a rank owns.
//
// HBM traffic a parameter, fused (facts in docs/sources.md 7.4): read parameter, gradient and two
// moments, write parameter and moments. In fp32 that is 16 + 12 = 28 B; with a 16-bit parameter and
// an fp32 master copy: gradient 2 + master 4 + moments 8 read, master 4 + moments 8 + parameter 2
// written, 28 B too; everything bf16: 8 + 6 = 14 B. The foreach variant makes a pass over memory an
// arithmetic operation: about 2.25 times the bytes.
//
// fp16 has a loss scale: before the step the gradients are unscaled in place (8 B an fp32 gradient)
// and the host reads whether any is infinite, so it waits for the device (R5).
//
// Launches: PyTorch's multi_tensor_apply packs at most 36 tensors and 320 chunks of 65,536 elements
// into one launch. Tested by tests/unit/strategies/optimizer_test.cpp.

#include <cstdint>
#include <span>

#include "sim/schedule/builder.hpp"
#include "sim/strategies/strategy.hpp"

namespace stepcast {

// Bytes of optimizer state a parameter: two moments, and the master copy where there is one.
Bytes optimizer_state_bytes(const Precision& precision);

Kernel adamw_kernel(const Precision& precision, std::int64_t elements, std::int64_t tensors,
                    bool fused);

// `owned` are views of the parameters, gradients and states; states and parameters are written.
// Returns the op.
OpIndex optimizer_step(ScheduleBuilder& builder, const TrainingStep& step, StreamIndex compute,
                       std::int64_t elements, std::span<const View> parameters,
                       std::span<const View> gradients, std::span<const View> states);

}  // namespace stepcast
