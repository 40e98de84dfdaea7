#include "sim/sweep/sample.hpp"

#include <fmt/format.h>

#include <boost/random/sobol.hpp>
#include <charconv>
#include <cmath>
#include <random>

#include "base/error.hpp"

namespace stepcast {
namespace {

constexpr int most_samples = 1'000'000;

// std::uniform_real_distribution may differ between libraries; this does not.
double unit(std::mt19937_64& random) { return static_cast<double>(random() >> 11) * 0x1p-53; }

}  // namespace

Sampling parse_sampling(const std::string& text, std::uint64_t seed) {
  const std::size_t colon = text.find(':');
  const std::string how = text.substr(0, colon);
  Sampling sampling;
  sampling.sobol = how == "sobol";
  sampling.seed = seed;
  if (colon != std::string::npos && (sampling.sobol || how == "random")) {
    const char* end = text.data() + text.size();
    const auto [last, error] = std::from_chars(text.data() + colon + 1, end, sampling.count);
    if (error == std::errc{} && last == end && sampling.count >= 1 &&
        sampling.count <= most_samples) {
      return sampling;
    }
  }
  throw InputError({.file = "--sample", .line = 0, .key = ""},
                   fmt::format("'{}' is not accepted; accepted: sobol:N or random:N, N from 1 to "
                               "{}",
                               text.substr(0, 80), most_samples));
}

std::vector<std::vector<double>> draw(const Sampling& sampling, int dimensions) {
  std::mt19937_64 random(sampling.seed);
  std::vector<std::vector<double>> rows(static_cast<std::size_t>(sampling.count));
  if (!sampling.sobol) {
    for (std::vector<double>& row : rows) {
      for (int d = 0; d < dimensions; ++d) row.push_back(unit(random));
    }
    return rows;
  }
  std::vector<double> shift(static_cast<std::size_t>(dimensions), 0.0);
  if (sampling.seed != 0) {
    for (double& each : shift) each = unit(random);
  }
  boost::random::sobol sequence(static_cast<std::size_t>(dimensions));
  for (std::vector<double>& row : rows) {
    for (const double by : shift) {
      const double u = static_cast<double>(sequence() >> 11) * 0x1p-53 + by;
      row.push_back(u - std::floor(u));
    }
  }
  return rows;
}

}  // namespace stepcast
