#pragma once
// The measured shapes of one GPU, as factors on what the models say: log(measured / modelled)
// around a shape, and whether the very shape was measured. Read and modelled once a process and
// GPU.

#include <memory>
#include <string>
#include <vector>

#include "sim/kernels/gpu_family.hpp"
#include "sim/kernels/shape_tables.hpp"

namespace stepcast {

class KernelTables {
 public:
  // The figures name the tables; CHIPs are of the GPU that they were measured on.
  KernelTables(std::vector<MeasuredGemm> gemms, const GemmFigures& gemm, const GemmChip& gemm_chip,
               const std::vector<MeasuredAttention>& attention,
               const AttentionFigures& attention_figures, const AttentionChip& attention_chip,
               double widths = 1.0);

  double gemm_log_ratio(const Kernel& kernel) const;
  bool has_gemm(const Kernel& kernel) const;
  double attention_log_ratio(const Kernel& kernel) const;

 private:
  std::vector<MeasuredGemm> gemms_;
  GemmBox box_;
  ShapeResiduals gemm_;
  ShapeResiduals attention_;
};

GemmChip gemm_chip(const Gpu& gpu, double peak_flops, double memory_rate, double element_bytes);
AttentionChip attention_chip(const Gpu& gpu, double peak_flops, double memory_rate);
GemmShape gemm_shape(const Kernel& kernel);

// The tables of a catalog GPU against its own fit; null when it has none. Kept for the process.
std::shared_ptr<const KernelTables> catalog_tables(const std::string& gpu);

}  // namespace stepcast
