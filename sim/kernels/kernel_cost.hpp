#pragma once
// Seconds of one kernel on one GPU. Roofline with efficiencies by shape: tiles and waves of a GEMM,
// the HBM rate of a memory-bound kernel by its size, a launch floor; each cost is labelled.
// Tested by tests/unit/kernels.

#include "base/kernel.hpp"
#include "base/provenance.hpp"
#include "base/units.hpp"
#include "sim/kernels/profile.hpp"
#include "topologies/topology.hpp"

namespace stepcast {

enum class KernelBound : std::uint8_t { compute, memory, latency };

struct KernelCost {
  Seconds seconds = 0;      // alone on the GPU
  Seconds sm_seconds = 0;   // of all SMs: what it asks of the shared resource "sm"
  Seconds hbm_seconds = 0;  // of the whole HBM bandwidth
  KernelBound bound = KernelBound::compute;
  Provenance provenance = Provenance::modelled;
};

// Throws InputError when the GPU has no peak for the kernel's dtype.
KernelCost cost_of(const Kernel& kernel, const Gpu& gpu, const SoftwareProfile& profile);

}  // namespace stepcast
