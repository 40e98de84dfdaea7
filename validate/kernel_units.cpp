#include "validate/kernel_units.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sim/calibration/repetitions.hpp"

namespace stepcast {

namespace {

std::vector<std::int64_t> sizes(std::int64_t first, std::int64_t last, bool quick) {
  std::vector<std::int64_t> list;
  for (std::int64_t size = first; size <= last; size *= quick ? 4 : 2) list.push_back(size);
  return list;
}

KernelUnit products(Dtype dtype, bool quick) {
  KernelUnit unit;
  unit.name = fmt::format("products in {}", to_string(dtype));
  for (const std::int64_t m : sizes(256, 16384, quick)) {
    for (const std::int64_t n : sizes(1024, 16384, quick)) {
      for (const std::int64_t k : sizes(1024, 16384, quick)) {
        unit.kernels.push_back(gemm("product", dtype, m, n, k));
      }
    }
  }
  return unit;
}

KernelUnit attentions(KernelKind pass, bool quick) {
  constexpr std::int64_t tokens = 16384;  // of a batch, so that short sequences fill the chip too
  constexpr std::int64_t heads = 16;
  KernelUnit unit;
  unit.name = pass == KernelKind::attention_forward ? "attention forward" : "attention backward";
  for (const std::int64_t head : {64, 128}) {
    for (const std::int64_t length : sizes(512, 8192, quick)) {
      unit.kernels.push_back(attention("attention", pass, Dtype::bf16, tokens / length, heads,
                                       heads, length, length, head, true));
    }
  }
  return unit;
}

KernelUnit streams(bool quick) {
  KernelUnit unit;
  unit.name = "memory-bound kernels";
  unit.repetitions = 9;
  for (const Bytes bytes : sizes(4 * kib, gib, quick)) {
    unit.kernels.push_back(memory_bound("stream", Dtype::fp32, bytes / 2, bytes / 2));
  }
  return unit;
}

}  // namespace

bool KernelUnit::is_in(const Calibration& c) const {
  const Kernel& first = kernels.front();
  if (first.kind == KernelKind::memory) return !c.kernels.memory.empty();
  return std::any_of(c.kernels.shapes.begin(), c.kernels.shapes.end(),
                     [&](const MeasuredKernels::Shape& s) {
                       return s.shape.kind == first.kind && s.shape.dtype == first.dtype;
                     });
}

std::vector<KernelUnit> kernel_units(const Bench& bench, bool quick) {
  std::vector<KernelUnit> units;
  for (const Dtype dtype : bench.dtypes) units.push_back(products(dtype, quick));
  const bool has_bf16 =
      std::find(bench.dtypes.begin(), bench.dtypes.end(), Dtype::bf16) != bench.dtypes.end();
  if (has_bf16) {
    units.push_back(attentions(KernelKind::attention_forward, quick));
    units.push_back(attentions(KernelKind::attention_backward, quick));
  }
  units.push_back(streams(quick));
  return units;
}

void measure_kernels(Calibration& c, const Bench& bench, const KernelUnit& unit) {
  const Schedule schedule = runtime::kernels_bench(bench.mesh, unit.kernels);
  const Timeline timeline = bench.run(schedule, 1 + unit.repetitions, 0);
  if (timeline.spans.empty()) return;
  const auto all = runtime::durations(schedule, timeline, OpKind::compute);
  MeasuredKernels::Series series;
  for (std::size_t i = 0; i < unit.kernels.size(); ++i) {
    const Kernel& kernel = unit.kernels[i];
    const Repeated time = repeated(all[i]);
    const Seconds seconds = std::max(time.median, 1e-9);
    if (kernel.kind != KernelKind::memory) {
      c.kernels.shapes.push_back({kernel, seconds, time.spread});
      continue;
    }
    series.bytes.push_back(kernel.bytes_read + kernel.bytes_written);
    series.seconds.push_back(seconds);
    series.spread.push_back(time.spread);
  }
  if (series.bytes.empty()) return;
  // The largest stream: what the memory reaches.
  c.kernels.memory_bytes_per_second =
      static_cast<double>(series.bytes.back()) / series.seconds.back();
  c.kernels.memory.push_back(std::move(series));
}

}  // namespace stepcast
