#pragma once
// Seconds of one kernel on one GPU, under one software profile.
//
//   GEMM         a model of tiles, waves, split-K, power and memory with seven fitted figures
//                (gemm_model.hpp), corrected by measured / modelled of the measured shapes around
//                it where the GPU has a table (shape_tables.hpp).
//   attention    fused: a rate by length and head size (attention_model.hpp), corrected in the same
//                way; unfused: the products, then everything that goes through memory.
//   convolution  the GEMM it is (base/kernel.hpp), with the bytes of the images. Weight gradients
//                have fewer tiles than SMs and split their inner size. No convolution was measured:
//                overlapping reads are taken to hit the caches, and channels are not padded to the
//                tensor cores' 8.
//   memory       bytes at the rate that streams reach.
//   all          a floor: starting and draining a kernel takes 1.5 us on the GPU.
//
// In a training step the chip has long settled at its power limit. Short products of a benchmark
// run up to a third faster; that lead is taken out (Clocks::settled) while what a measured shape
// says beside it is kept.
//
// Example, H100, bf16 8192 x 4096 x 7168: docs/kernels.md, with every part.
//
// Cost: 0.1 us a kernel, a shape with a table 5 us, and 0.5 ms once for the table. Checked against
// 5,366 public measurements by validate/kernels and tests/unit/kernels/measured_test.cpp. Tested by
// tests/unit/kernels.

#include <cstdint>
#include <memory>
#include <string_view>

#include "base/kernel.hpp"
#include "base/provenance.hpp"
#include "base/units.hpp"
#include "sim/kernels/gpu_family.hpp"
#include "sim/kernels/profile.hpp"
#include "topologies/topology.hpp"

namespace stepcast {

enum class KernelBound : std::uint8_t { compute, memory, latency };

// What a kernel's time rests on, best first.
enum class KernelBasis : std::uint8_t {
  measured,      // this very shape on this very GPU
  interpolated,  // measured shapes around it, on this GPU
  fitted,        // the model, its figures fitted to measurements of this GPU
  scaled,  // figures of another GPU or of another kind of kernel, by peak, power and bandwidth
};

constexpr std::string_view to_string(KernelBasis basis) {
  constexpr std::string_view names[] = {"measured", "interpolated", "fitted", "scaled"};
  return names[static_cast<int>(basis)];
}

constexpr Provenance provenance_of(KernelBasis basis) {
  switch (basis) {
    case KernelBasis::measured: return Provenance::measured;
    case KernelBasis::interpolated:
    case KernelBasis::fitted: return Provenance::modelled;
    case KernelBasis::scaled: return Provenance::extrapolated;
  }
  return Provenance::extrapolated;
}

struct KernelCost {
  Seconds seconds = 0;      // alone on the GPU
  Seconds sm_seconds = 0;   // of all SMs: what it asks of the shared resource "sm"
  Seconds hbm_seconds = 0;  // of the whole HBM bandwidth that streams reach
  KernelBound bound = KernelBound::compute;
  KernelBasis basis = KernelBasis::fitted;
  Provenance provenance = Provenance::modelled;
};

class KernelTables;  // the measured shapes of one GPU, kernel_tables.hpp

// The model of one GPU under one profile, its constants worked out once.
class KernelModel {
 public:
  KernelModel(const Gpu& gpu, const SoftwareProfile& profile, Clocks clocks = Clocks::settled);

  // Throws InputError when the GPU has no peak for the kernel's dtype.
  KernelCost cost(const Kernel& kernel) const;
  double memory_bytes_per_second() const { return memory_rate_; }

 private:
  double peak(Dtype dtype) const;  // FLOP/s
  GemmChip chip(Dtype dtype) const;
  KernelCost product(const Kernel& kernel) const;  // GEMMs and convolutions
  KernelCost attention(const Kernel& kernel) const;
  KernelCost unfused_attention(const Kernel& kernel) const;
  KernelCost memory(const Kernel& kernel) const;

  Gpu gpu_;
  KernelFigures figures_;
  Clocks clocks_;
  std::shared_ptr<const KernelTables> tables_;
  double peaks_[9] = {};  // by Dtype, FLOP/s; 0: the part has none
  double gemm_efficiency_ = 1;
  double attention_rate_ = 1;        // of the measured kernel's
  bool measured_attention_ = false;  // the profile runs the kernel that was measured
  double memory_rate_ = 0;           // B/s
  double stream_sms_ = 0;            // share of the SMs that a stream needs to fill the memory
};

// One call; builds a KernelModel each time.
KernelCost cost_of(const Kernel& kernel, const Gpu& gpu, const SoftwareProfile& profile);

}  // namespace stepcast
