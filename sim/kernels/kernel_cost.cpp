#include "sim/kernels/kernel_cost.hpp"

#include <algorithm>
#include <iterator>

#include "base/error.hpp"

namespace stepcast {

namespace {

// A kernel's start and drain on the GPU. Back-to-back empty-ish kernels take 1.3 us in a CUDA graph
// on H200 and 1.4 us on A100 (gpu-benches, gpu-small-kernels).
constexpr Seconds kernel_floor = 1.5e-6;

// Pipeline fill and drain of a GEMM tile, in 16-bit elements of K.
constexpr double tile_fill = 192;

// Memory latency under load; with it, how many bytes must be in flight (Little's law).
constexpr Seconds memory_latency = 0.7e-6;
constexpr double bytes_in_flight_per_sm = 2048.0 * 16;  // a 16-byte load a thread

struct Tile {
  std::int64_t rows, columns;
  double relative;  // speed against the big tiles: smaller ones re-read operands more often
};
constexpr Tile tiles[] = {
    {256, 128, 1.0}, {128, 256, 1.0}, {128, 128, 0.9}, {128, 64, 0.75}, {64, 128, 0.75}};

double to_double(std::int64_t value) { return static_cast<double>(value); }

}  // namespace

KernelModel::KernelModel(const Gpu& gpu, const SoftwareProfile& profile)
    : gpu_(gpu), family_(&family_of(gpu)) {
  const std::optional<double> peaks[] = {gpu.peak_fp64, gpu.peak_fp32, gpu.peak_tf32,
                                         gpu.peak_fp16, gpu.peak_bf16, gpu.peak_fp8};
  for (std::size_t i = 0; i < std::size(peaks); ++i) peaks_[i] = peaks[i].value_or(0.0);
  sustained_ = sustained_fraction(*family_, gpu);
  gemm_efficiency_ = profile.gemm_efficiency;
  attention_rate_ = family_->attention_fraction * profile.attention_efficiency;
  if (profile.attention_kernel == AttentionKernel::flash2) {
    attention_rate_ *= family_->flash2_fraction;
  }
  memory_rate_ = gpu.memory_gbps * 1e9 * family_->memory_fraction * profile.memory_efficiency;
  STEPCAST_ASSERT(memory_rate_ > 0 && gpu.sm_count > 0, "a GPU has memory and SMs: " + gpu.name);
  stream_sms_ =
      std::min(1.0, memory_rate_ * memory_latency / (gpu.sm_count * bytes_in_flight_per_sm));
  provenance_ = provenance_of(*family_, gpu);
}

double KernelModel::peak(Dtype dtype) const {
  static_assert(static_cast<int>(Dtype::fp64) == 0 && static_cast<int>(Dtype::fp8) == 5);
  const auto index = static_cast<std::size_t>(dtype);
  if (index < std::size(peaks_) && peaks_[index] > 0) return peaks_[index];
  return gpu_.peak_flops(dtype);  // throws, naming the part
}

KernelCost KernelModel::gemm(const Kernel& kernel) const {
  const double peak_flops = peak(kernel.dtype);
  const double sms = gpu_.sm_count;
  const double depth =
      to_double(kernel.k) + tile_fill * 2.0 / to_double(bytes_per_element(kernel.dtype));
  const double sm_rate = peak_flops / sms * family_->tile_fraction * gemm_efficiency_;
  double in_waves = 0;  // seconds
  double busy = 0;      // SM-seconds over SMs
  for (const Tile& tile : tiles) {
    const double count = to_double(ceil_div(kernel.m, tile.rows)) *
                         to_double(ceil_div(kernel.n, tile.columns)) * to_double(kernel.batch);
    const double waves = static_cast<double>(
        ceil_div(static_cast<std::int64_t>(count), static_cast<std::int64_t>(gpu_.sm_count)));
    const double one =
        2.0 * to_double(tile.rows * tile.columns) * depth / (sm_rate * tile.relative);
    if (in_waves == 0 || waves * one < in_waves) {
      in_waves = waves * one;
      busy = count / sms * one;
    }
  }
  const double powered = model_flops(kernel) / (peak_flops * sustained_ * gemm_efficiency_);
  KernelCost cost;
  cost.hbm_seconds = to_double(kernel.bytes_read + kernel.bytes_written) / memory_rate_;
  const double compute = std::max(in_waves, powered);
  const double work = std::max(compute, cost.hbm_seconds);
  cost.seconds = kernel_floor + work;
  cost.sm_seconds = std::max(busy, powered);
  cost.bound = work < kernel_floor          ? KernelBound::latency
               : cost.hbm_seconds > compute ? KernelBound::memory
                                            : KernelBound::compute;
  return cost;
}

// Two things differ from a GEMM: operands overlap, so the bytes are those of the images; and the
// inner size may be split over SMs that have no output tile of their own. No convolution was
// measured for this: its efficiencies are those of matrix products, the overlapping reads are taken
// to hit the caches, and channels are not padded to the tensor cores' 8.
KernelCost KernelModel::convolution(const Kernel& kernel) const {
  const double peak_flops = peak(kernel.dtype);
  const double sms = gpu_.sm_count;
  const double fill = tile_fill * 2.0 / to_double(bytes_per_element(kernel.dtype));
  const double sm_rate = peak_flops / sms * family_->tile_fraction * gemm_efficiency_;
  const double operands = to_double(kernel.bytes_read + kernel.bytes_written);
  const double powered = model_flops(kernel) / (peak_flops * sustained_ * gemm_efficiency_);
  KernelCost best;
  double best_work = 0, best_compute = 0;
  for (std::int64_t parts = 1; parts == 1 || to_double(kernel.k / parts) >= fill; parts *= 2) {
    // Every part writes its fp32 sums, and a second kernel reads them.
    const double sums = parts == 1 ? 0 : 8.0 * to_double(kernel.m * kernel.n * parts);
    const double hbm = (operands + sums) / memory_rate_;
    const double depth = to_double(ceil_div(kernel.k, parts)) + fill;
    for (const Tile& tile : tiles) {
      const std::int64_t count =
          ceil_div(kernel.m, tile.rows) * ceil_div(kernel.n, tile.columns) * parts;
      const double one =
          2.0 * to_double(tile.rows * tile.columns) * depth / (sm_rate * tile.relative);
      const double compute = std::max(to_double(ceil_div(count, gpu_.sm_count)) * one, powered);
      const double work = std::max(compute, hbm) + (parts == 1 ? 0 : kernel_floor);
      if (best_work > 0 && work >= best_work) continue;
      best_work = work;
      best_compute = compute;
      best.hbm_seconds = hbm;
      best.sm_seconds = std::max(to_double(count) / sms * one, powered);
    }
  }
  best.seconds = kernel_floor + best_work;
  best.bound = best_work < kernel_floor          ? KernelBound::latency
               : best.hbm_seconds > best_compute ? KernelBound::memory
                                                 : KernelBound::compute;
  return best;
}

KernelCost KernelModel::attention(const Kernel& kernel) const {
  const bool backward = kernel.kind == KernelKind::attention_backward;
  const double peak_flops = peak(kernel.dtype);
  KernelCost cost;
  cost.hbm_seconds = to_double(kernel.bytes_read + kernel.bytes_written) / memory_rate_;
  double compute = 0;
  if (kernel.fused) {
    const double keys = to_double(kernel.n);
    // The ramp is stated for causal forwards, which see half the keys.
    const double ramp = family_->attention_ramp * (kernel.causal ? 1.0 : 0.5);
    const double fraction =
        attention_rate_ * keys / (keys + ramp) * (backward ? family_->backward_fraction : 1.0);
    compute = hardware_flops(kernel) / (peak_flops * fraction);
    cost.seconds = std::max(compute, cost.hbm_seconds);
    // One pass: what limits it limits all of it.
    cost.bound = compute >= cost.hbm_seconds ? KernelBound::compute : KernelBound::memory;
    cost.sm_seconds = std::max(compute, stream_sms_ * cost.hbm_seconds);
  } else {
    // Separate kernels: the products, then everything that goes through memory.
    compute = hardware_flops(kernel) / (peak_flops * sustained_ * gemm_efficiency_);
    cost.seconds = compute + cost.hbm_seconds;
    cost.bound = compute >= cost.hbm_seconds ? KernelBound::compute : KernelBound::memory;
    cost.sm_seconds = compute + stream_sms_ * cost.hbm_seconds;
  }
  const Seconds floor = kernel_floor * kernel.launches;
  if (cost.seconds < floor) cost.bound = KernelBound::latency;
  cost.seconds += floor;
  return cost;
}

KernelCost KernelModel::memory(const Kernel& kernel) const {
  KernelCost cost;
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
    case KernelKind::gemm: cost = gemm(kernel); break;
    case KernelKind::convolution: cost = convolution(kernel); break;
    case KernelKind::attention_forward:
    case KernelKind::attention_backward: cost = attention(kernel); break;
    case KernelKind::memory: cost = memory(kernel); break;
  }
  cost.provenance = provenance_;
  return cost;
}

KernelCost cost_of(const Kernel& kernel, const Gpu& gpu, const SoftwareProfile& profile) {
  return KernelModel(gpu, profile).cost(kernel);
}

}  // namespace stepcast
