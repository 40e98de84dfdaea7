#include "sim/forecast/interval.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.hpp"
#include "sim/report/format.hpp"

namespace stepcast {

namespace {

constexpr double extrapolated = 0.10;
constexpr double assumed = 0.20;
constexpr double exposed_in_node = 0.15;
constexpr double exposed_between_nodes = 0.30;
constexpr double between_nodes = 0.02;
constexpr double one_in_ten = 1.2816;  // of a normal distribution

}  // namespace

double StepInterval::deviation() const {
  return std::sqrt(profile * profile + kernels * kernels + network * network + scale * scale);
}

double spread_of_profiles() {
  static const double spread = [] {
    std::vector<double> logs;
    for (const std::string& name : catalog_profiles()) {
      const SoftwareProfile profile = load_profile(name);
      const std::vector<std::string>& fitted = profile.fitted;
      if (std::find(fitted.begin(), fitted.end(), "gemm") == fitted.end()) continue;
      logs.push_back(std::log(profile.gemm_efficiency));
    }
    STEPCAST_ASSERT(logs.size() > 1, "several profiles of the catalog are fitted");
    const double mean =
        std::accumulate(logs.begin(), logs.end(), 0.0) / static_cast<double>(logs.size());
    double squares = 0;
    for (const double log : logs) squares += (log - mean) * (log - mean);
    return std::sqrt(squares / static_cast<double>(logs.size() - 1));
  }();
  return spread;
}

StepInterval interval_of(const Report& report, const SoftwareProfile& profile) {
  StepInterval interval;
  const TimeSplit& split = report.split;
  const auto share = [&](Provenance p) {
    return split.by_provenance[static_cast<std::size_t>(p)] / report.step_time;
  };
  interval.borrowed = profile.residual == 0;
  interval.profile = interval.borrowed ? spread_of_profiles() : profile.residual;
  interval.kernels =
      extrapolated * share(Provenance::extrapolated) + assumed * share(Provenance::assumed);
  interval.network = split.exposed_total() / report.step_time *
                     (report.nodes > 1 ? exposed_between_nodes : exposed_in_node);
  interval.scale = report.nodes > 1 ? between_nodes : 0;
  // In logarithms, so that a wide interval stays above 0.
  const double width = std::exp(one_in_ten * interval.deviation());
  interval.low = report.step_time / width;
  interval.high = report.step_time * width;
  return interval;
}

std::string words(const StepInterval& i) {
  return fmt::format(
      "8 steps in 10 take {} to {}; deviations: profile {:.1f} %{}, kernels {:.1f} %, network "
      "{:.1f} %, scale {:.1f} %",
      human_seconds(i.low), human_seconds(i.high), i.profile * 100,
      i.borrowed ? " (not fitted: as fitted ones differ)" : "", i.kernels * 100, i.network * 100,
      i.scale * 100);
}

}  // namespace stepcast
