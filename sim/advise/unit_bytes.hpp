#pragma once
// What the largest unit takes on a GPU however many GPUs share the states: the limit of sharded
// data parallelism.
//
//   gathered parameters, the next gather's output, its gradients, the last reduce input
//   + what its recomputation makes for one sequence + the short-lived tensors of its backward
//   + the CUDA context and NCCL's buffers
//
// Example: a Llama-3-405B block has 3.19e9 parameters: 10 bytes each are 31.9 GB (docs/sources.md
// 4.2), before activations. Tested by tests/unit/advise/unit_bytes_test.cpp.

#include <string>

#include "sim/strategies/strategy.hpp"

namespace stepcast {

struct UnitBytes {
  std::string unit;  // "layers.0"
  std::int64_t parameters = 0;
  Bytes states = 0;       // gathered, gradients, reduce input
  Bytes activations = 0;  // one sequence, everything else checkpointed
  Bytes overhead = 0;
  Bytes total() const { return states + activations + overhead; }
};

// The step is that of the full_shard candidate.
UnitBytes largest_unit(const TrainingStep& step);

// GPUs among which that unit must be cut, by tensor or pipeline parallelism, to fit `capacity`: a
// power of two; 0 where no number is enough because the overheads alone do not fit.
int model_parallel_degree(const UnitBytes& unit, Bytes capacity);

}  // namespace stepcast
