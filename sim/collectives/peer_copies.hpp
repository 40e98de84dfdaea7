#pragma once
// Scatter and gather of a process that drives all GPUs of a node (nn.DataParallel): one
// cudaMemcpyPeer for each GPU but the root. They are no NCCL collectives and hold no SMs.
//
// A copy between GPUs runs on the current stream of its source. So a scatter's copies, all on the
// root's stream, run one after the other, whatever links the root has; a gather's run at once and
// share the root's link.
//
//   S bytes, n GPUs     scatter  (n-1) (start + S/n / path)
//                       gather   start + the most loaded link: (n-1) S/n / the root's own
//
// Example, 4 GPUs on PCIe Gen4 (24 GB/s), 1.2 GB: both 3 x 0.3 / 24 = 37.5 ms. On 4 A100 joined
// directly by 4 NVLinks a pair (80 GB/s) the scatter takes 11.25 ms, the gather 3.75.
//
// A path is as fast as NCCL takes its links to be (link_speeds.hpp): modelled. Without peer access
// the driver stages the copy through host memory in pieces that overlap; that it reaches the speed
// of the slower PCIe link is assumed. The start of a copy, 10 us, is assumed too.
// Source: PyTorch ATen/native/cuda/Copy.cu, csrc/cuda/comm.cpp (docs/sources.md 1.1).
// Tested by tests/unit/collectives/peer_copies_test.cpp.

#include "sim/collectives/link_load.hpp"
#include "sim/collectives/nccl/system.hpp"

namespace stepcast {

inline constexpr Seconds peer_copy_start = 10e-6;

struct PeerCopies {
  Seconds seconds = 0;
  NodeTraffic traffic;
};

// `bytes`: the root's tensor. The root is the system's first GPU.
PeerCopies peer_copies(const nccl::System& system, CollectiveKind kind, double bytes);

}  // namespace stepcast
