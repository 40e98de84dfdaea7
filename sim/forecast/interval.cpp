#include "sim/forecast/interval.hpp"

#include <fmt/format.h>

#include <cmath>

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

StepInterval interval_of(const Report& report, const SoftwareProfile& profile) {
  StepInterval interval;
  const TimeSplit& split = report.split;
  const auto share = [&](Provenance p) {
    return split.by_provenance[static_cast<std::size_t>(p)] / report.step_time;
  };
  interval.profile = profile.residual;
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
      "8 steps in 10 take {} to {}; deviations: profile {:.1f} %, kernels {:.1f} %, network "
      "{:.1f} %, scale {:.1f} %",
      human_seconds(i.low), human_seconds(i.high), i.profile * 100, i.kernels * 100,
      i.network * 100, i.scale * 100);
}

}  // namespace stepcast
