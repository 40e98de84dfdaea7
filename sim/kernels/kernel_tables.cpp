#include "sim/kernels/kernel_tables.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <tuple>

#include "base/error.hpp"

namespace stepcast {

KernelTables::KernelTables(std::vector<MeasuredGemm> gemms, const GemmFigures& figures,
                           const GemmChip& chip, const std::vector<MeasuredAttention>& attention,
                           const AttentionFigures& attention_figures,
                           const AttentionChip& attention_chip, double widths)
    : gemms_(std::move(gemms)), gemm_(gemm_widths(widths)), attention_(attention_widths(widths)) {
  for (const MeasuredGemm& row : gemms_) {
    const Kernel kernel = kernel_of(row);
    const Seconds modelled =
        kernel_floor + gemm_time(figures, chip, gemm_shape(kernel), Clocks::benchmark).work;
    gemm_.add(shape_point(kernel), std::log(row.us * 1e-6 / modelled));
  }
  if (!gemms_.empty()) box_ = box_of(gemms_);
  for (const MeasuredAttention& row : attention) {
    const Kernel kernel = kernel_of(row);
    attention_.add(
        shape_point(kernel),
        std::log(row.us * 1e-6 / attention_benchmark(attention_figures, attention_chip, kernel)));
  }
}

double KernelTables::gemm_log_ratio(const Kernel& kernel) const {
  return gemm_.empty() ? 0 : gemm_.log_ratio(shape_point(into(box_, kernel)));
}

bool KernelTables::has_gemm(const Kernel& kernel) const {
  const auto key = [](const auto& x) { return std::tuple(x.m, x.n, x.k); };
  const auto found = std::lower_bound(
      gemms_.begin(), gemms_.end(), kernel,
      [&](const MeasuredGemm& row, const Kernel& wanted) { return key(row) < key(wanted); });
  return found != gemms_.end() && key(*found) == key(kernel);
}

double KernelTables::attention_log_ratio(const Kernel& kernel) const {
  return attention_.empty() ? 0 : attention_.log_ratio(shape_point(kernel));
}

GemmChip gemm_chip(const Gpu& gpu, double peak_flops, double memory_rate, double element_bytes) {
  return {.peak_flops = peak_flops,
          .sm_count = static_cast<double>(gpu.sm_count),
          .memory_rate = memory_rate,
          .element_bytes = element_bytes};
}

AttentionChip attention_chip(const Gpu& gpu, double peak_flops, double memory_rate) {
  return {.peak_flops = peak_flops,
          .sm_count = static_cast<double>(gpu.sm_count),
          .boost_mhz = gpu.boost_mhz,
          .memory_rate = memory_rate};
}

GemmShape gemm_shape(const Kernel& kernel) {
  return {.m = kernel.m,
          .n = kernel.n,
          .k = kernel.k,
          .batch = kernel.batch,
          .bytes = static_cast<double>(kernel.bytes_read + kernel.bytes_written)};
}

std::shared_ptr<const KernelTables> catalog_tables(const std::string& name) {
  static std::mutex mutex;
  static std::map<std::string, std::shared_ptr<const KernelTables>> known;
  const std::scoped_lock lock(mutex);
  const auto found = known.find(name);
  if (found != known.end()) return found->second;
  const KernelFit* fit = fit_of(name);
  std::shared_ptr<const KernelTables> tables;
  if (fit != nullptr) {
    const Gpu gpu = load_gpu(name);
    const KernelFigures figures = figures_of(gpu, *fit);
    const double peak = gpu.peak_flops(Dtype::bf16);
    const double rate = gpu.memory_gbps * 1e9 * figures.memory_fraction;
    tables = std::make_shared<KernelTables>(
        measured_gemms(name), figures.gemm, gemm_chip(gpu, peak, rate, 2.0),
        measured_attention(name), figures.attention, attention_chip(gpu, peak, rate));
  }
  known.emplace(name, tables);
  return tables;
}

}  // namespace stepcast
