#include "sim/calibration/calibration.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace stepcast {

std::vector<MeasuredShare> Calibration::interference() const {
  // What ran faster beside a collective is noise.
  const auto taken = [](double slowdown) { return 1 - 1 / std::max(1.0, slowdown); };
  std::vector<MeasuredShare> shares;
  for (const CalibratedOverlap& o : overlaps) {
    shares.push_back({o.channels, taken(o.compute_slowdown),
                      o.memory_slowdown ? taken(*o.memory_slowdown) : -1});
  }
  return shares;
}

std::string summary(const Calibration& c) {
  const auto count = [&](auto&& which) {
    return std::count_if(c.kernels.shapes.begin(), c.kernels.shapes.end(),
                         [&](const MeasuredKernels::Shape& s) { return which(s.shape.kind); });
  };
  std::vector<std::string> parts;
  const auto say = [&](std::size_t n, const char* what) {
    if (n > 0) parts.push_back(fmt::format("{} {}{}", n, what, n == 1 ? "" : "s"));
  };
  say(count([](KernelKind k) { return k == KernelKind::gemm; }), "product");
  say(count([](KernelKind k) {
        return k == KernelKind::attention_forward || k == KernelKind::attention_backward;
      }),
      "attention");
  say(count([](KernelKind k) { return k == KernelKind::convolution; }), "convolution");
  std::size_t sizes = 0;
  for (const MeasuredKernels::Series& series : c.kernels.memory) sizes += series.bytes.size();
  say(sizes, "memory-bound size");
  std::size_t times = 0;
  for (const MeasuredTable::Series& series : c.collectives.series()) times += series.bytes.size();
  say(times, "collective");
  if (c.kernels.memory_bytes_per_second > 0) parts.emplace_back("memory bandwidth");
  if (c.host.launch_us || c.host.bare_launch_us) parts.emplace_back("launches");
  if (c.host.op_overhead_us) parts.emplace_back("what an op costs");
  say(c.overlaps.size(), "overlap");
  return parts.empty() ? "nothing" : fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace stepcast
