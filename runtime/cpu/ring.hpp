#pragma once
// The arithmetic of collectives. Ranks that are threads read their peers' tensors where they lie:
// two halves. Ranks that are processes add hop by hop, with the same result (wire_ring.hpp).
//
// As in a ring, a tensor is cut in one chunk a rank; chunk c is summed along rank c+1, c+2, ..., c
// and rounded to its dtype at every hop, so results depend on the number of ranks, never on who
// comes first. Each rank works twice, with everybody waiting in between:
//
//   first    reduce my chunk of everybody's input             (reduce-scatter half)
//   second   fetch everybody's finished chunk                 (all-gather half)
//
// Three ranks, all-reduce (sum) of one element a chunk: rank 1's chunk is (in2 + in0) + in1.
// avg multiplies each input by 1/n first (NCCL's ncclAvg); integers are divided at the end.
// Tested by tests/unit/runtime/ring_test.cpp.

#include <cstddef>
#include <vector>

#include "sim/schedule/schedule.hpp"

namespace stepcast::runtime {

// Where a rank's tensors of one collective lie; the same pointer where it works in place. Sizes
// follow from Op::elements.
struct Operands {
  const std::byte* send = nullptr;
  std::byte* receive = nullptr;
};

// What all ranks of a collective agree on.
struct Collective {
  CollectiveKind kind = CollectiveKind::all_reduce;
  Reduction reduction = Reduction::none;
  Dtype dtype = Dtype::fp32;
  std::int64_t elements = 0;  // as Op::elements
  int root = -1;              // index in the group
  friend bool operator==(const Collective& a, const Collective& b) = default;
};

// `me` is this rank's index in the group; `all` every rank's operands.
void first_half(const Collective& collective, const std::vector<Operands>& all, int me);
void second_half(const Collective& collective, const std::vector<Operands>& all, int me);

// The steps of a sum around a ring: the first rank's own input, what each later rank adds to the
// sum that came to it, and what the last does to it.
void first_hop(const Collective& collective, int ranks, const std::byte* own, std::int64_t count,
               std::byte* sum);
void next_hop(const Collective& collective, int ranks, const std::byte* own, std::int64_t count,
              std::byte* sum);
void last_hop(const Collective& collective, int ranks, std::byte* sum, std::int64_t count);

}  // namespace stepcast::runtime
