#include "sim/calibration/repetitions.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"

namespace stepcast {

Repeated repeated(std::vector<double> values) {
  STEPCAST_ASSERT(!values.empty(), "a time that was never taken");
  std::sort(values.begin(), values.end());
  const auto quantile = [&](double q) {
    const double at = q * static_cast<double>(values.size() - 1);
    const auto below = static_cast<std::size_t>(at);
    const std::size_t above = std::min(below + 1, values.size() - 1);
    return values[below] + (at - static_cast<double>(below)) * (values[above] - values[below]);
  };
  const double median = quantile(0.5);
  return {median, median > 0 ? (quantile(0.75) - quantile(0.25)) / median : 0};
}

}  // namespace stepcast
