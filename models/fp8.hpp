#pragma once
// Linear layers whose three products run in fp8: what is cast, when, and what that moves.
//
// Only matrix products of linear layers within blocks change. Norms, attention, residuals, the head
// with the loss and the embedding stay in the compute dtype (16 bit); so do weights between steps,
// gradients and the optimizer. A product reads 8-bit operands and writes 16-bit results. Forward
// operands are e4m3, gradients e5m2: one byte both. Tensor cores multiply fp8 only with both inner
// dimensions contiguous, so each operand is needed in two layouts: x and W as they are for x W^T,
// W transposed for g W, g and x transposed for g^T x. A linear whose width is no multiple of 16
// stays in 16 bit, as cuBLAS's fp8 products need that.
//
//   te_delayed            Transformer Engine's DelayedScaling (release 1.x; Composer's amp_fp8 and
//                         accelerate's backend TE). Scales come from the largest values of earlier
//                         steps, so one kernel reads a tensor once and writes both layouts, and the
//                         largest value on the way. Input and weight in forward, the gradient in
//                         backward (its sum, the bias gradient, is part of that kernel). Kept for
//                         backward: the transposed fp8 input instead of the 16-bit one, and the
//                         transposed fp8 weight. Every linear casts and keeps its own input, also
//                         where three share one: what asks for the recipe here replaces each
//                         torch.nn.Linear by a te.Linear (accelerate's convert_model, llm-foundry's
//                         fc_type te). Only TE's own LayerNormLinear and LayerNormMLP share one,
//                         and they fuse q, k and v, or gate and up, into one product (MPT's Wqkv is
//                         one). Selective checkpointing gains less: linears are not run again, so
//                         their fp8 inputs stay, and a norm whose result only they read is not run
//                         again.
//   torchao_tensorwise    torchao's Float8Linear with dynamic tensorwise scaling (0.7; torchtitan).
//                         The scale is that of the tensor itself: a pass that reads it for the
//                         largest value, then one that casts. Forward casts input and weight;
//                         backward casts the gradient into both layouts and input and weight once
//                         more, transposed, from the 16-bit tensors, which are what is kept.
//                         Compiled, the largest values are kept, casts write both layouts at once
//                         and linears with one input share its cast; eager, each arithmetic
//                         operation is a pass of its own (below).
//
// Eager cast of torchao, bytes an element, E those of the tensor: abs (E read, E written), max (E,
// -), to fp32 (E, 4), times scale (4, 4), clamp (4, 4), to fp8 (4, 1), and for a transposed layout
// a copy (1, 1).
//
// fp8_gathered: FSDP2 gathers weights that are cast already (sim/strategies/fsdp2), so forward has
// no cast of them and backward a transposed copy of one byte.
//
// Example, h = 4096, f = 14336, 16,384 tokens, bf16, up projection under te_delayed: input 134 MB
// read and 2 x 67 MB written, weight 117 MB read and 2 x 59 MB written, product of 16,384 x 14,336
// x 4,096, whose result is 470 MB.
//
// Sources: docs/sources.md, "fp8". Tested by tests/unit/models/fp8_test.cpp.

#include <cstdint>
#include <vector>

#include "models/work_parts.hpp"

namespace stepcast {

// Whether cuBLAS multiplies a weight of this shape in fp8.
bool fits_fp8(std::int64_t in, std::int64_t out);

// Whether this linear's products run in fp8 under the sizes' recipe.
bool runs_in_fp8(const Sizes& sizes, const Linear& linear);

void fp8_linear_forward(const Sizes& sizes, const Linear& linear, std::vector<Kernel>& list);
void fp8_linear_backward(const Sizes& sizes, const Linear& linear,
                         std::vector<BackwardKernel>& list);

// A product of 8-bit operands with a result of the compute dtype.
Kernel fp8_gemm(const Sizes& sizes, Name name, std::int64_t m, std::int64_t n, std::int64_t k);

// What the recipe changes of a layer's bytes, by its linears.
struct Fp8Bytes {
  std::int64_t elements = 0;     // of weights whose products run in fp8
  Bytes inputs = 0;              // kept for backward: fp8 copies of inputs
  Bytes weights = 0;             // kept for backward: fp8 copies of weights
  Bytes forward_workspace = 0;   // operands of one product, the most of any
  Bytes backward_workspace = 0;  // the same of its backward
  // Whether fp8 inputs stand in for the 16-bit tensor: all linears that read it keep one, and
  // nothing else does. Of a post-norm block the norms' results are in the residual stream.
  bool for_norm1 = false, for_norm2 = false;
  bool for_inner = false;  // what the down projection reads
  void add(const Sizes& sizes, const Linear& linear);
};
Fp8Bytes fp8_bytes_of_block(const Sizes& sizes);  // block_work.cpp

}  // namespace stepcast
