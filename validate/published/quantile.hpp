#pragma once
// Quantiles of a few hundred numbers.

#include <algorithm>
#include <cmath>
#include <vector>

namespace stepcast {

// Linear between order statistics (numpy's default): of 1, 2, 4 the median is 2, the 0.9 quantile
// 3.6. Of nothing, 0.
inline double quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double at = q * static_cast<double>(values.size() - 1);
  const auto low = static_cast<std::size_t>(std::floor(at));
  const std::size_t high = std::min(low + 1, values.size() - 1);
  return values[low] + (at - static_cast<double>(low)) * (values[high] - values[low]);
}

}  // namespace stepcast
