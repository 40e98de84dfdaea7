#include "sim/kernels/measured_kernels.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace stepcast {

namespace {

constexpr std::size_t most_neighbours = 4;
constexpr double near = 1 + 1e-9;  // doublings of every size
constexpr double far = 3 + 1e-9;

bool same_kind(const Kernel& a, const Kernel& b) {
  if (a.kind != b.kind || a.dtype != b.dtype) return false;
  const bool attends =
      a.kind == KernelKind::attention_forward || a.kind == KernelKind::attention_backward;
  return !attends || (a.causal == b.causal && a.fused == b.fused);
}

// The sizes that decide how fast a kernel of its kind is.
std::array<double, 5> sizes(const Kernel& k) {
  const auto log = [](std::int64_t size) {
    return std::log2(static_cast<double>(std::max<std::int64_t>(size, 1)));
  };
  const bool attends =
      k.kind == KernelKind::attention_forward || k.kind == KernelKind::attention_backward;
  if (attends) return {log(k.m), log(k.n), log(k.k), log(k.batch * k.heads), log(k.kv_heads)};
  return {log(k.m), log(k.n), log(k.k), log(k.batch), 0};
}

struct Distance {
  double largest = 0;  // of one size
  double squared = 0;  // of all
};

Distance distance(const std::array<double, 5>& a, const std::array<double, 5>& b) {
  Distance d;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double one = std::abs(a[i] - b[i]);
    d.largest = std::max(d.largest, one);
    d.squared += one * one;
  }
  return d;
}

struct Found {
  Seconds seconds = 0;
  MeasuredHow how = MeasuredHow::measured;
};

Found in_series(const MeasuredKernels::Series& series, double bytes) {
  const auto size = [&](std::size_t i) { return static_cast<double>(series.bytes[i]); };
  std::size_t i = 0;
  while (i < series.bytes.size() && size(i) < bytes) ++i;
  if (i < series.bytes.size() && size(i) == bytes) {
    return {series.seconds[i], MeasuredHow::measured};
  }
  if (i == 0) return {series.seconds[0], MeasuredHow::extrapolated};
  if (i == series.bytes.size()) {
    return {series.seconds.back() * bytes / size(i - 1), MeasuredHow::extrapolated};
  }
  const double part = std::log(bytes / size(i - 1)) / std::log(size(i) / size(i - 1));
  const Seconds seconds =
      std::exp(std::log(series.seconds[i - 1]) * (1 - part) + std::log(series.seconds[i]) * part);
  return {seconds, MeasuredHow::interpolated};
}

}  // namespace

CalibratedKernels::CalibratedKernels(KernelModel model, MeasuredKernels measured)
    : model_(std::move(model)), measured_(std::move(measured)) {
  for (const MeasuredKernels::Shape& shape : measured_.shapes) {
    ratios_.push_back(shape.seconds / model_.cost(shape.shape).seconds);
  }
}

std::optional<CalibratedKernels::Factor> CalibratedKernels::shape_factor(
    const Kernel& kernel) const {
  struct Neighbour {
    double squared = 0;
    double ratio = 1;
  };
  std::vector<Neighbour> nearest;
  double closest = 0;  // largest distance in one size, of the nearest shape
  const std::array<double, 5> mine = sizes(kernel);
  for (std::size_t i = 0; i < measured_.shapes.size(); ++i) {
    if (!same_kind(measured_.shapes[i].shape, kernel)) continue;
    const Distance d = distance(mine, sizes(measured_.shapes[i].shape));
    if (d.squared == 0) return Factor{ratios_[i], MeasuredHow::measured};
    if (d.largest > far) continue;
    const auto at =
        std::upper_bound(nearest.begin(), nearest.end(), d.squared,
                         [](double squared, const Neighbour& n) { return squared < n.squared; });
    if (at == nearest.begin()) closest = d.largest;
    nearest.insert(at, {d.squared, ratios_[i]});
    if (nearest.size() > most_neighbours) nearest.pop_back();
  }
  if (nearest.empty()) return std::nullopt;
  double weights = 0;
  double logs = 0;
  for (const Neighbour& n : nearest) {
    weights += 1 / n.squared;
    logs += std::log(n.ratio) / n.squared;
  }
  return Factor{std::exp(logs / weights),
                closest <= near ? MeasuredHow::interpolated : MeasuredHow::extrapolated};
}

std::optional<CalibratedKernels::Factor> CalibratedKernels::memory_factor(const Kernel& kernel,
                                                                          Seconds model) const {
  const MeasuredKernels::Series* use = nullptr;
  for (const MeasuredKernels::Series& series : measured_.memory) {
    if (series.kernel.empty() && use == nullptr) use = &series;
    if (!series.kernel.empty() && series.kernel == kernel.name) use = &series;
  }
  if (use == nullptr) return std::nullopt;
  const int launches = std::max(kernel.launches, 1);
  const double bytes = static_cast<double>(kernel.bytes_read + kernel.bytes_written) / launches;
  const Found found = in_series(*use, bytes);
  return Factor{found.seconds * launches / model, found.how};
}

CalibratedKernels::Cost CalibratedKernels::cost(const Kernel& kernel) const {
  Cost cost;
  static_cast<KernelCost&>(cost) = model_.cost(kernel);
  if (measured_.empty()) return cost;
  const std::optional<Factor> found = kernel.kind == KernelKind::memory
                                          ? memory_factor(kernel, cost.seconds)
                                          : shape_factor(kernel);
  if (!found) return cost;
  cost.seconds *= found->factor;
  cost.sm_seconds = std::min(cost.seconds, cost.sm_seconds * found->factor);
  cost.hbm_seconds = std::min(cost.seconds, cost.hbm_seconds * found->factor);
  cost.provenance = provenance_of(found->how);
  cost.basis = found->how == MeasuredHow::measured       ? KernelBasis::measured
               : found->how == MeasuredHow::interpolated ? KernelBasis::interpolated
                                                         : KernelBasis::scaled;
  cost.how = found->how;
  return cost;
}

double CalibratedKernels::memory_bytes_per_second() const {
  return measured_.memory_bytes_per_second > 0 ? measured_.memory_bytes_per_second
                                               : model_.memory_bytes_per_second();
}

}  // namespace stepcast
