#pragma once
// PowerSGD: a bucket's matrices are reduced as two thin factors (after start_powerSGD_iter, 1000 by
// default; before, the all-reduce hook runs).
//
// A parameter of n = dim 0 rows and m = the other dims' columns is compressed when
// (n + m) r min_compression_rate < n m. M (n x m) is approximated by P Qᵀ, P n x r, Q m x r:
//
//   compute   bucket += error (what the last step's approximation lost); clone it
//             gather the uncompressed tensors; orthogonalise Q (of the last step: warm start)
//             P = M Q
//   nccl      all-reduce of the uncompressed tensors
//   hook      divide and copy them back
//   nccl      all-reduce of all P
//   hook      orthogonalise P; Q = Mᵀ P
//   nccl      all-reduce of all Q
//   hook      divide Q; M = P Qᵀ into the bucket
//   host      synchronises with the device, in the middle of backward
//   hook      error = clone - bucket
//
// The three all-reduces depend on each other, so a bucket costs three latencies, and the host can
// no longer run ahead: backward stops at each bucket. Persistent: the error (the size of the
// bucket), P and Q. Example, r = 4: 4096 x 4096 gives 32,768 elements in P and Q, 1/512;
// 50257 x 768 204,100, 1/189; a bias of 4096 is left alone; so is a 2 x 2 matrix at r = 1, as
// 4 · 2 < 4 is false (E-24).
//
// Orthogonalising is counted as Gram-Schmidt: r columns, about 5 kernels each (assumed; PyTorch
// calls a QR factorisation for fp32). Source: PyTorch powerSGD_hook.py (docs/sources.md 1.2).
// Tested by tests/unit/strategies/ddp_hooks_test.cpp.

#include <cstdint>
#include <memory>

#include "sim/strategies/ddp/comm_hook.hpp"

namespace stepcast::ddp {

struct Factors {
  std::int64_t rows = 0, columns = 0;
  std::int64_t rank = 0;                                             // 0: not compressed
  std::int64_t elements() const { return rank * (rows + columns); }  // of P and Q
};

Factors factors_of(const Parameter& parameter, int rank, double min_compression_rate);

std::unique_ptr<BucketReduction> make_powersgd(const HookPlace& place,
                                               const std::vector<Bucket>& buckets);

}  // namespace stepcast::ddp
