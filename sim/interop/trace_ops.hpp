#pragma once
// What an op of a PyTorch trace did, by its name and the shapes of its inputs: a product, a
// memory-bound kernel of so many bytes, a collective. Ops that are not known are not guessed.
//
//   aten::mm [[768, 32768], [32768, 3072]] c10::BFloat16   -> product m 768, n 3072, k 32768
//   aten::add_ [[256, 64, 56, 56], [256, 64, 56, 56]]      -> 3 x 4 B x 51.4 M elements
//
// Tested by tests/unit/calibration/from_trace_test.cpp.

#include <optional>

#include "base/kernel.hpp"
#include "sim/interop/kineto.hpp"
#include "sim/schedule/schedule.hpp"

namespace stepcast {

// Of a cpu_op event with shapes. A memory-bound kernel has the op's name.
std::optional<Kernel> kernel_of_op(const KinetoEvent& op);

struct TraceCollective {
  CollectiveKind op = CollectiveKind::all_reduce;
  Dtype dtype = Dtype::fp32;
  Bytes bytes = 0;  // nccl-tests' size
  int ranks = 0;
  std::vector<int> members;  // where the trace says so
};
// Of an event that carries a collective's arguments.
std::optional<TraceCollective> collective_of(const KinetoEvent& event);

}  // namespace stepcast
