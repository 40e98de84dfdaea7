#pragma once
// DeepSpeed ZeRO stages 1 and 2: parameters replicated in 16 bits, optimizer state (and in stage 2
// gradients) partitioned.
//
//   backward   gradients are copied into the bucket as they arrive; the next one that does not fit
//              flushes it (ipg_bucket.hpp): divide by W, then by default ONE all-reduce of the
//              whole bucket, not a reduce-scatter (use_multi_rank_bucket_allreduce), and this rank
//              keeps the slices it owns; in reduce mode, one reduce to each owner; with
//              reduce_scatter false, an all-reduce of the bucket itself, without the flat copy
//   overlap    with overlap_comm the flush runs on a reduction stream with two bucket buffers, and
//              the compute stream waits for the flush before; without it (the default of these
//              stages) everything runs on the compute stream
//   epilogue   the rest is flushed; with overlap_comm the host waits for the device, every backward
//   stage 1    reduces only in the last micro-batch; without overlap_comm after its backward, in
//              definition order
//   step       norm and overflow checks read by the host; the own gradients are flattened (2Ψ/W
//   more
//              in 16 bits, until the copy in fp32, 4Ψ/W, is there), unscale, Adam on the own slice,
//              copy to 16 bits; one all-gather of the whole flat buffer, not overlapped
//              (allgather_bucket_size is ignored by DeepSpeed where that primitive exists, and so
//              here)
//
// Example, four layers of 10 MiB, a bucket of two, all-reduce 5 per 10 MiB, forward 2, backward 4:
// the first flush when layer 2's gradient arrives at 20, all-reduce 20-30; the epilogue at 24 waits
// for 30, all-reduce 30-40. DDP with two such buckets is done at 36.
//
// Source: DeepSpeed stage_1_and_2.py (docs/sources.md 1.5). Tested by
// tests/unit/strategies/zero_test.cpp (E-9, E-18, E-19).

#include "sim/strategies/strategy.hpp"

namespace stepcast::zero {

Schedule build_stage12(const TrainingStep& step);

}  // namespace stepcast::zero
