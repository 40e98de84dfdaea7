#pragma once
// The optimizer step on the parameters (or the shard of them) that a rank owns.
//
// HBM traffic a parameter, fused AdamW (facts in docs/sources.md 7.4): read parameter, gradient and
// two moments, write parameter and moments. In fp32 that is 16 + 12 = 28 B; with a 16-bit parameter
// and an fp32 master copy: gradient 2 + master 4 + moments 8 read, master 4 + moments 8 + parameter
// 2 written, 28 B too; everything bf16: 8 + 6 = 14 B.
//
//   optimizer      fp32 bytes   launches                     state    besides
//   adamw-fused    28           one for 36 tensors           8 B
//   adamw-foreach  63 (2.25x)   12 passes of such launches   8 B      a temporary of all it updates
//   adamw-unfused  63           12 for every tensor          8 B      one of the largest tensor
//   sgd-momentum   32           3 passes                     4 B
//   sgd            12           1 pass                       none
//
// SGD is PyTorch's default, foreach: buffer *= momentum (8 B), buffer += gradient (12), parameter
// -= rate * buffer (12); without momentum the last alone. Example, 7e9 parameters on 8 ranks, fused
// AdamW: 0.875e9 x 28 B = 24.5 GB, 8.17 ms at 3.0 TB/s (E-30).
//
// State exists from the first step on (Optimizer.step makes it), except where a master copy or
// DeepSpeed made it at construction: in a schedule with a "first" step the backward of that step
// runs without it (docs/sources.md 4.2).
//
// fp16 has a loss scale: before the step the gradients are unscaled in place (8 B an fp32 gradient)
// and the host reads whether any is infinite, so it waits for the device (R5).
//
// Launches: PyTorch's multi_tensor_apply packs at most 36 tensors and 320 chunks of 65,536 elements
// into one launch. Tested by tests/unit/strategies/optimizer_test.cpp.

#include <cstdint>
#include <span>
#include <vector>

#include "sim/schedule/builder.hpp"
#include "sim/strategies/common/clip.hpp"
#include "sim/strategies/strategy.hpp"

namespace stepcast {

// Bytes of optimizer state a parameter: what the optimizer keeps, and the master copy where there
// is one.
Bytes optimizer_state_bytes(const TrainingStep& step);

// The update of `elements` parameters in `tensors` tensors; with a master copy the 16-bit parameter
// is written too.
Kernel update_kernel(OptimizerKind kind, const Precision& precision, std::int64_t elements,
                     std::int64_t tensors);
// The same on fp32 gradients and an fp32 weight, whatever the parameter's dtype: DeepSpeed's step
// on its flat fp32 slices, whose 16-bit copy is a kernel of its own.
Kernel update_fp32_kernel(OptimizerKind kind, const Precision& precision, std::int64_t elements);

// Declares the state of `elements` parameters. Where it is created in the first step, that step
// calls create_optimizer_state() before its optimizer step: allocated and filled with zeros, a
// kernel for every tensor of every moment.
BufferIndex declare_optimizer_state(ScheduleBuilder& builder, const TrainingStep& step, Name name,
                                    std::int64_t elements, StreamIndex compute);
bool created_in_first_step(const TrainingStep& step);
void create_optimizer_state(ScheduleBuilder& builder, const TrainingStep& step, StreamIndex compute,
                            std::span<const View> states);

// What a rank updates: views of parameters, gradients and states.
struct Owned {
  std::int64_t elements = 0;
  std::vector<View> parameters;
  std::vector<View> gradients;
  std::vector<View> states;

  // Of an FSDP unit, any type with buffers `shard`, `gradient_shard` and `state`.
  template <typename Unit>
  void add(const ScheduleBuilder& builder, const Unit& unit, std::int64_t shard_elements) {
    parameters.push_back(builder.whole(unit.shard));
    gradients.push_back(builder.whole(unit.gradient_shard));
    states.push_back(builder.whole(unit.state));
    elements += shard_elements;
  }
};

// Unscale (fp16), clip if asked for, update; states and parameters are written. Returns the last
// op. `scope` says over whom the norm is summed.
OpIndex optimizer_step(ScheduleBuilder& builder, const TrainingStep& step, StreamIndex compute,
                       std::int64_t elements, std::span<const View> parameters,
                       std::span<const View> gradients, std::span<const View> states,
                       const NormScope& scope = {});

}  // namespace stepcast
