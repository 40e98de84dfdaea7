#include "sim/kernels/kernel_cost.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/error.hpp"
#include "sim/kernels/kernel_tables.hpp"

namespace stepcast {

namespace {

// Memory latency under load; with it, how many bytes must be in flight (Little's law).
constexpr Seconds memory_latency = 0.7e-6;
constexpr double bytes_in_flight_per_sm = 2048.0 * 16;  // a 16-byte load a thread

double to_double(std::int64_t value) { return static_cast<double>(value); }

KernelBound bound_of(Seconds compute, Seconds memory, Seconds floor) {
  if (std::max(compute, memory) < floor) return KernelBound::latency;
  return memory > compute ? KernelBound::memory : KernelBound::compute;
}

// The dtypes whose products run as bf16's do.
bool like_bf16(Dtype dtype) { return dtype == Dtype::bf16 || dtype == Dtype::fp16; }

}  // namespace

KernelModel::KernelModel(const Gpu& gpu, const SoftwareProfile& profile, Clocks clocks)
    : gpu_(gpu), figures_(figures_of(gpu)), clocks_(clocks) {
  const std::optional<double> peaks[] = {gpu.peak_fp64, gpu.peak_fp32, gpu.peak_tf32,
                                         gpu.peak_fp16, gpu.peak_bf16, gpu.peak_fp8};
  for (std::size_t i = 0; i < std::size(peaks); ++i) peaks_[i] = peaks[i].value_or(0.0);
  if (!figures_.gemm_table.empty()) tables_ = catalog_tables(figures_.gemm_table);
  gemm_efficiency_ = profile.gemm_efficiency;
  attention_rate_ = profile.attention_efficiency;
  measured_attention_ = profile.attention_kernel == AttentionKernel::best;
  if (!measured_attention_) attention_rate_ *= figures_.family->flash2_fraction;
  memory_rate_ = gpu.memory_gbps * 1e9 * figures_.memory_fraction * profile.memory_efficiency;
  STEPCAST_ASSERT(memory_rate_ > 0 && gpu.sm_count > 0, "a GPU has memory and SMs: " + gpu.name);
  stream_sms_ =
      std::min(1.0, memory_rate_ * memory_latency / (gpu.sm_count * bytes_in_flight_per_sm));
}

double KernelModel::peak(Dtype dtype) const {
  static_assert(static_cast<int>(Dtype::fp64) == 0 && static_cast<int>(Dtype::fp8) == 5);
  const auto index = static_cast<std::size_t>(dtype);
  if (index < std::size(peaks_) && peaks_[index] > 0) return peaks_[index];
  return gpu_.peak_flops(dtype);  // throws, naming the part
}

GemmChip KernelModel::chip(Dtype dtype) const {
  return gemm_chip(gpu_, peak(dtype) * gemm_efficiency_, memory_rate_,
                   to_double(bytes_per_element(dtype)));
}

KernelCost KernelModel::product(const Kernel& kernel) const {
  const GemmTime time = gemm_time(figures_.gemm, chip(kernel.dtype), gemm_shape(kernel), clocks_);
  KernelCost cost;
  Seconds work = time.work;
  const bool plain = kernel.kind == KernelKind::gemm && like_bf16(kernel.dtype);
  cost.basis = figures_.own_gemm && plain ? KernelBasis::fitted : KernelBasis::scaled;
  if (tables_ && plain && kernel.batch == 1) {
    // Of the whole kernel, its start included, as it was measured.
    work = (kernel_floor + work) * std::exp(tables_->gemm_log_ratio(kernel)) - kernel_floor;
    work = std::max(work, time.memory * 0.5);
    if (figures_.own_gemm) {
      cost.basis = kernel.dtype == Dtype::bf16 && tables_->has_gemm(kernel)
                       ? KernelBasis::measured
                       : KernelBasis::interpolated;
    }
  }
  cost.seconds = kernel_floor + work;
  const double share = time.compute / std::max(time.compute, time.memory);
  cost.sm_seconds = work * share * time.busy;
  cost.hbm_seconds = std::min(time.memory, work);
  cost.bound = bound_of(time.compute, time.memory, kernel_floor);
  return cost;
}

KernelCost KernelModel::attention(const Kernel& kernel) const {
  const bool backward = kernel.kind == KernelKind::attention_backward;
  const double rate = attention_rate_ * (backward ? figures_.family->backward_fraction : 1.0);
  Seconds compute = attention_work(
      figures_.attention, attention_chip(gpu_, peak(kernel.dtype), memory_rate_), kernel, rate);
  KernelCost cost;
  cost.basis = figures_.own_attention ? KernelBasis::fitted : KernelBasis::scaled;
  if (tables_ && !figures_.attention_table.empty() && like_bf16(kernel.dtype)) {
    compute *= std::exp(tables_->attention_log_ratio(kernel));
    const bool as_measured = measured_attention_ && !backward && kernel.causal && kernel.k == 128;
    if (figures_.own_attention && as_measured) cost.basis = KernelBasis::interpolated;
  }
  cost.hbm_seconds = to_double(kernel.bytes_read + kernel.bytes_written) / memory_rate_;
  const Seconds work = std::max(compute, cost.hbm_seconds);
  cost.sm_seconds = std::max(compute, stream_sms_ * cost.hbm_seconds);
  const Seconds floor = kernel_floor * kernel.launches;
  cost.bound = bound_of(compute, cost.hbm_seconds, floor);
  cost.seconds = floor + work;
  return cost;
}

// Separate kernels: the products, then everything that goes through memory.
KernelCost KernelModel::unfused_attention(const Kernel& kernel) const {
  KernelCost cost;
  cost.basis = KernelBasis::scaled;
  cost.hbm_seconds = to_double(kernel.bytes_read + kernel.bytes_written) / memory_rate_;
  const Seconds compute =
      hardware_flops(kernel) /
      (peak(kernel.dtype) * long_product_fraction(figures_.gemm) * gemm_efficiency_);
  const Seconds floor = kernel_floor * kernel.launches;
  cost.bound = bound_of(compute, cost.hbm_seconds, floor);
  cost.seconds = floor + compute + cost.hbm_seconds;
  cost.sm_seconds = compute + stream_sms_ * cost.hbm_seconds;
  return cost;
}

KernelCost KernelModel::memory(const Kernel& kernel) const {
  KernelCost cost;
  cost.basis = figures_.own_memory ? KernelBasis::fitted : KernelBasis::scaled;
  cost.hbm_seconds = to_double(kernel.bytes_read + kernel.bytes_written) / memory_rate_;
  const Seconds floor = kernel_floor * kernel.launches;
  cost.seconds = floor + cost.hbm_seconds;
  cost.sm_seconds = stream_sms_ * cost.hbm_seconds;
  cost.bound = cost.hbm_seconds < floor ? KernelBound::latency : KernelBound::memory;
  return cost;
}

KernelCost KernelModel::cost(const Kernel& kernel) const {
  KernelCost cost;
  switch (kernel.kind) {
    case KernelKind::gemm:
    case KernelKind::convolution: cost = product(kernel); break;
    case KernelKind::attention_forward:
    case KernelKind::attention_backward:
      cost = kernel.fused ? attention(kernel) : unfused_attention(kernel);
      break;
    case KernelKind::memory: cost = memory(kernel); break;
  }
  cost.provenance = provenance_of(cost.basis);
  return cost;
}

KernelCost cost_of(const Kernel& kernel, const Gpu& gpu, const SoftwareProfile& profile) {
  return KernelModel(gpu, profile).cost(kernel);
}

}  // namespace stepcast
