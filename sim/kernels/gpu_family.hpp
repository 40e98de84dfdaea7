#pragma once
// The figures of the kernel models for a GPU: fitted to measurements of that part, or carried over
// from the part of its family that was measured (data/gpu-families.toml, data/kernel-fits.toml).

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "sim/kernels/attention_model.hpp"
#include "sim/kernels/gemm_model.hpp"
#include "topologies/topology.hpp"

namespace stepcast {

struct GpuFamily {
  std::string name;
  int compute_capability = 0;
  std::vector<std::string> gpus;  // catalog names that belong here whatever their capability
  std::string reference;          // of kernel-fits.toml
  std::string attention_reference;
  std::vector<std::string> same_die;  // parts that the table of the reference holds for
  double scale = 1;                   // of the reference's fractions of the dense peak
  double reference_peak_tflops = 0;   // the sustained fraction holds for this peak ...
  double reference_watts = 0;         // ... at this board power
  double flash2_fraction = 0;
  double backward_fraction = 0;
  double memory_fraction = 0;  // of the memory bandwidth
  std::unordered_map<std::string, double> memory_by_part;
  std::string source;
};

// What fits of one measured GPU found.
struct KernelFit {
  std::string gpu;
  GemmFigures gemm;
  bool has_attention = false;
  AttentionFigures attention;
};

struct KernelFigures {
  const GpuFamily* family = nullptr;
  GemmFigures gemm;
  AttentionFigures attention;
  double memory_fraction = 0;
  bool own_gemm = false;  // fitted to measurements of this very part
  bool own_attention = false;
  bool own_memory = false;
  std::string gemm_table;  // whose measured shapes hold for it; empty: none
  std::string attention_table;
};

// The family of a part: by name, by compute capability, else the nearest older architecture.
const GpuFamily& family_of(const Gpu& gpu);
const KernelFit* fit_of(std::string_view gpu);  // null: none

KernelFigures figures_of(const Gpu& gpu);
// The same with another fit in place of the catalog's: what validate/kernels tries.
KernelFigures figures_of(const Gpu& gpu, const KernelFit& fit);

// Dense fraction of the peak that the part sustains under its board power limit. Rate follows the
// square root of the power: between voltage fixed (linear) and voltage that follows the clock (cube
// root); docs/kernels.md compares it with measurements.
double sustained_fraction(const GpuFamily& family, const GemmFigures& reference, const Gpu& gpu);

}  // namespace stepcast
