#include "sim/strategies/zero/ipg_bucket.hpp"

#include <utility>

namespace stepcast::zero {

std::vector<Flush> plan_flushes(std::span<const std::int64_t> numels, std::span<const int> arrival,
                                std::int64_t bucket_elements) {
  std::vector<Flush> flushes;
  Flush open;
  const auto flush = [&](int trigger) {
    if (open.parameters.empty()) return;
    open.triggered_by = trigger;
    flushes.push_back(std::exchange(open, Flush{}));
  };
  for (const int parameter : arrival) {
    const std::int64_t numel = numels[static_cast<std::size_t>(parameter)];
    if (open.elements + numel > bucket_elements) flush(parameter);
    open.parameters.push_back(parameter);
    open.elements += numel;
    // Larger than the bucket: it waits for the next gradient like any other, but lies outside it.
    open.alone = numel > bucket_elements;
  }
  flush(-1);
  return flushes;
}

}  // namespace stepcast::zero
