#pragma once
// Seconds of one kernel on one GPU: a roofline with efficiencies by shape.
//
//   GEMM       output tiles in waves over the SMs, each tile k + 192 steps deep (the pipeline fills
//              and drains); not faster than the power limit lets the whole chip run, nor than its
//              operands come from memory. The best of five tile shapes, as cuBLAS would choose.
//   attention  FLOPs at a fraction of the peak that grows with the sequence length.
//   convolution  the GEMM it is (base/kernel.hpp), with the bytes of the images. Where the output
//              has fewer tiles than SMs, as every weight gradient, the inner size is split: parts
//              add up their fp32 results through memory. The best of 1, 2, 4, ... parts.
//   memory     bytes at a fraction of the bandwidth.
//   all        a floor: starting and draining a kernel takes 1.5 us on the GPU.
//
// Example, H100 (132 SMs, 989.4 TFLOP/s), bf16 4096 x 4096 x 4096: 256x128 tiles: 512 of them in 4
// waves; a tile 2*256*128*(4096+192) FLOP at 989.4/132 TFLOP/s * 0.86 = 43.6 us; 4 waves 174 us and
// the floor: 176 us. Measured: 180 us. The power limit alone (0.72 of the peak) would allow 193 us,
// which is what a long step gets: the answer is 194.4 us.
//
// Cost: about 50 ns a kernel. Figures and their sources: data/gpu-families.toml. Checked against
// 5,366 public measurements by tests/unit/kernels/measured_test.cpp. Tested by tests/unit/kernels.

#include "base/kernel.hpp"
#include "base/provenance.hpp"
#include "base/units.hpp"
#include "sim/kernels/gpu_family.hpp"
#include "sim/kernels/profile.hpp"
#include "topologies/topology.hpp"

namespace stepcast {

enum class KernelBound : std::uint8_t { compute, memory, latency };

struct KernelCost {
  Seconds seconds = 0;      // alone on the GPU
  Seconds sm_seconds = 0;   // of all SMs: what it asks of the shared resource "sm"
  Seconds hbm_seconds = 0;  // of the whole HBM bandwidth that streams reach
  KernelBound bound = KernelBound::compute;
  Provenance provenance = Provenance::modelled;
};

// The model of one GPU under one profile, its constants worked out once.
class KernelModel {
 public:
  KernelModel(const Gpu& gpu, const SoftwareProfile& profile);

  // Throws InputError when the GPU has no peak for the kernel's dtype.
  KernelCost cost(const Kernel& kernel) const;
  double memory_bytes_per_second() const { return memory_rate_; }

 private:
  double peak(Dtype dtype) const;  // FLOP/s
  KernelCost gemm(const Kernel& kernel) const;
  KernelCost convolution(const Kernel& kernel) const;
  KernelCost attention(const Kernel& kernel) const;
  KernelCost memory(const Kernel& kernel) const;

  Gpu gpu_;
  const GpuFamily* family_;
  double peaks_[9] = {};  // by Dtype, FLOP/s; 0: the part has none
  double sustained_ = 0;  // fraction of the peak
  double gemm_efficiency_ = 1;
  double attention_rate_ = 0;  // fraction of the peak, long sequences, forward
  double memory_rate_ = 0;     // B/s
  double stream_sms_ = 0;      // share of the SMs that a stream needs to fill the memory
  Provenance provenance_ = Provenance::modelled;
};

// One call; builds a KernelModel each time.
KernelCost cost_of(const Kernel& kernel, const Gpu& gpu, const SoftwareProfile& profile);

}  // namespace stepcast
