// The interval of a step, by hand.

#include "sim/forecast/interval.hpp"

#include <doctest/doctest.h>

#include <cmath>

using namespace stepcast;

TEST_CASE("deviations of profile, network and scale add up as independent ones") {
  Report report;
  report.step_time = 1.0;
  report.nodes = 16;
  report.split.exposed = {{"tail_reduce_scatter", 0.06}};
  report.split.by_provenance[static_cast<std::size_t>(Provenance::modelled)] = 1.0;
  SoftwareProfile profile;
  profile.residual = 0.02;
  const StepInterval interval = interval_of(report, profile);
  CHECK(interval.network == doctest::Approx(0.018));  // 30 % of 6 %
  CHECK(interval.kernels == 0);
  // sqrt(2^2 + 1.8^2 + 2^2) = 3.353 %, times 1.2816: 4.297 %.
  CHECK(std::log(interval.high) == doctest::Approx(0.04297).epsilon(1e-3));
  CHECK(interval.low * interval.high == doctest::Approx(1.0));
}

TEST_CASE("a profile without a residual may be as far off as fitted ones are from each other") {
  Report report;
  report.step_time = 1.0;
  const StepInterval interval = interval_of(report, SoftwareProfile{});
  CHECK(interval.borrowed);
  CHECK(interval.profile == spread_of_profiles());
  // Of profiles that run the same kernels between 0.7 and 1.3 times as fast as the model says.
  CHECK(spread_of_profiles() > 0.05);
  CHECK(spread_of_profiles() < 0.3);
  CHECK(words(interval).find("not fitted: as fitted ones differ") != std::string::npos);
}

TEST_CASE("one node has no scale, and what is assumed widens the interval") {
  Report report;
  report.step_time = 2.0;
  report.split.by_provenance[static_cast<std::size_t>(Provenance::assumed)] = 0.5;
  SoftwareProfile profile;
  profile.residual = 0.12;
  const StepInterval interval = interval_of(report, profile);
  CHECK(interval.scale == 0);
  CHECK(interval.kernels == doctest::Approx(0.05));      // 20 % of a quarter
  CHECK(interval.deviation() == doctest::Approx(0.13));  // 5, 12, 13
}
