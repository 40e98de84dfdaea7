#pragma once
// Gradient clipping: clip_grad_norm_ between backward and the optimizer step. All of it is on the
// compute stream and the host reads nothing, so it costs kernels, one tiny all-reduce where
// gradients are sharded, and Python:
//
//   norms        of every gradient tensor (reads all gradients), fp32
//   norm         stack them and take the norm of the norms; the p-th power where shards are summed
//   all-reduce   one fp32 element, among the ranks that hold the other shards
//   coefficient  max_norm / (norm + 1e-6), at most 1
//   scale        every gradient times the coefficient, needed or not (reads and writes them)
//
//   strategy             all-reduce over            the two passes over tensors
//   DDP, FSDP1 NO_SHARD  nobody: all hold them all  foreach: 36 tensors a launch
//   FSDP1                the shard group, one       a Python loop: a launch a tensor each
//   FSDP2                all ranks                  foreach, with the host work of a DTensor each
//   HSDP                 the shard group            the same
//   ZeRO                 its step always computes the norm and scales (zero/); this adds nothing
//
// On 1,500 DTensors the foreach norm is CPU-bound (torchtitan issue 735). Example, 8 ranks, 16
// gradients of 1 MB each a rank: 16 MB read, 4 B all-reduced, 16 MB read and written.
//
// Source: PyTorch torch/nn/utils/clip_grad.py, fully_sharded_data_parallel.py clip_grad_norm_
// (docs/sources.md 1.3). Tested by tests/unit/strategies/optimizer_test.cpp.

#include <cstdint>
#include <span>

#include "sim/schedule/builder.hpp"
#include "sim/strategies/strategy.hpp"

namespace stepcast {

struct NormScope {
  CommIndex comm = -1;       // that sums the shards' norms; -1: this rank holds all gradients
  bool looped = false;       // tensor by tensor instead of foreach
  bool dtensors = false;     // each tensor costs the host a DTensor dispatch
  std::int64_t tensors = 0;  // that this rank updates; 0: as many as the model has
};

// Kernels that multi_tensor_apply launches for one pass over tensors.
std::int64_t foreach_launches(std::int64_t elements, std::int64_t tensors);

std::int64_t tensors_of(const TrainingStep& step, const NormScope& scope);

// A buffer of the optimizer step that lives shortly; declared once, however many steps use it.
BufferIndex step_buffer(ScheduleBuilder& builder, Name name, BufferKind kind, Dtype dtype,
                        Bytes bytes, StreamIndex pool);

void clip_gradients(ScheduleBuilder& builder, const TrainingStep& step, StreamIndex compute,
                    std::int64_t elements, std::span<const View> gradients, const NormScope& scope);

}  // namespace stepcast
