#pragma once
// GpuCollectives by NCCL 2.18 or later, opened where it is: what its version lacks is left out at
// run time, what the header's version lacks at compile time.
//
// Communicators are non-blocking (docs/sources.md, section 9): a call may return
// ncclInProgress, and a split's handle is written by NCCL later, so that it is kept at one address.

#include <memory>

#include "runtime/cuda/gpu.hpp"

namespace stepcast::cuda {

// Throws GpuError where NCCL is not found or too old.
std::unique_ptr<runtime::GpuCollectives> open_nccl();

}  // namespace stepcast::cuda
