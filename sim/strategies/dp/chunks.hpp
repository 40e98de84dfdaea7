#pragma once
// How nn.DataParallel groups tensors into chunks of 10 MiB, once in each direction and not alike.
//
//   replicate  (C++, broadcast_coalesced)   a tensor is added, and a chunk that has reached the
//   limit
//                                           is closed: it may exceed the limit by one tensor.
//   reduce     (Python, reduce_add_coalesced)  a chunk is closed before a tensor that would not
//   fit:
//                                           it exceeds the limit only where one tensor alone does.
//
// Example (E-25), tensors of 6, 6, 3, 9 and 1 MiB: broadcast in 12, 12 and 1 MiB, reduced in 6, 9
// and 10. Tensors keep their order and are of one dtype. One pass.
//
// Source: PyTorch torch/csrc/utils/tensor_flatten.cpp and torch/_utils.py (docs/sources.md 1.1).
// Tested by tests/unit/strategies/dp_chunks_test.cpp.

#include <span>
#include <vector>

#include "base/units.hpp"

namespace stepcast::dp {

inline constexpr Bytes chunk_limit = 10 * mib;

struct Chunk {
  int first = 0;  // tensor
  int count = 0;
  Bytes bytes = 0;
};

std::vector<Chunk> broadcast_chunks(std::span<const Bytes> tensors, Bytes limit = chunk_limit);
std::vector<Chunk> reduce_chunks(std::span<const Bytes> tensors, Bytes limit = chunk_limit);

}  // namespace stepcast::dp
