// The interval of a step, by hand.

#include "sim/forecast/interval.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "topologies/topology.hpp"

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

TEST_CASE("a device whose blocks fill it makes the interval longer upwards") {
  Report report;
  report.step_time = 1.0;
  report.capacity = 100;
  SoftwareProfile profile;
  profile.residual = 0.02;
  RoleMemory& role = report.memory.emplace_back();
  role.rows = {{"cuda_context", 4}, {"nccl", 6}, {"parameter", 70}};
  role.reserved.emplace().peak = 85;  // of the 90 that are left: 94.4 %
  CHECK(interval_of(report, profile).memory == 0);
  role.reserved->peak = 86;  // 95.6 %
  const StepInterval full = interval_of(report, profile);
  // Downwards 2 % times 1.2816, upwards sqrt(2^2 + 11.6^2) = 11.77 %, times 1.2816: 15.09 %.
  CHECK(std::log(full.low) == doctest::Approx(-0.02563).epsilon(1e-3));
  CHECK(std::log(full.high) == doctest::Approx(0.1509).epsilon(1e-3));
  CHECK(words(full).find("upwards a full device 11.6 %") != std::string::npos);
}

TEST_CASE("a profile without a residual may be as far off as fitted ones are, rate by rate") {
  Report report;
  report.step_time = 2.0;
  const SoftwareProfile profile;
  const double gemm = spread_of_profiles(Rate::gemm, profile);
  const double memory = spread_of_profiles(Rate::memory, profile);
  // Gemm efficiencies are between 0.85 and 1.2, those of memory-bound kernels between 0.5 and 1.25.
  CHECK(gemm > 0.05);
  CHECK(gemm < 0.15);
  CHECK(memory > 2 * gemm);
  CHECK(interval_of(report, profile).borrowed);
  CHECK(interval_of(report, profile).profile == doctest::Approx(gemm));
  report.split.by_rate[static_cast<std::size_t>(Rate::memory)] = 0.5;
  const StepInterval interval = interval_of(report, profile);
  CHECK(interval.profile == doctest::Approx(std::hypot(gemm, memory / 4)));
  CHECK(words(interval).find("not fitted: as fitted ones differ") != std::string::npos);
}

TEST_CASE("a profile of the catalog is compared with the others alone") {
  SoftwareProfile known = load_profile("composer-torch2");
  const double to_others = spread_of_profiles(Rate::gemm, known);
  known.name = "mine";
  CHECK(spread_of_profiles(Rate::gemm, known) < to_others);  // itself is one of them now
}

TEST_CASE("fits are nearer to a profile that has what they found") {
  SoftwareProfile profile;
  const double unknown = spread_of_profiles(Rate::attention, profile);
  profile.attention_efficiency = 0.72;  // they found 0.62 to 0.77
  CHECK(spread_of_profiles(Rate::attention, profile) < unknown / 2);
}

TEST_CASE("no convolution was measured, so only a fit on the very GPU has seen them") {
  Report report;
  report.step_time = 1.0;
  report.gpu = load_gpu("a100-sxm-80gb").full_name;
  report.split.by_rate[static_cast<std::size_t>(Rate::convolution)] = 0.5;
  SoftwareProfile profile;
  CHECK(interval_of(report, profile).kernels == doctest::Approx(0.135));  // 27 % of a half
  profile.residual = 0.02;
  profile.fitted = {"gemm"};
  profile.fitted_on = {"a100-sxm-80gb"};
  CHECK(interval_of(report, profile).kernels == 0);
}

TEST_CASE("a fit has seen the kernels of its own GPU, others are as far off as GPUs left out") {
  Report report;
  report.step_time = 1.0;
  report.split.by_provenance[static_cast<std::size_t>(Provenance::extrapolated)] = 0.5;
  SoftwareProfile profile;
  profile.residual = 0.03;
  profile.fitted = {"gemm"};
  profile.fitted_on = {"v100-sxm2-32gb"};
  const auto on = [&](const char* gpu) {
    report.gpu = load_gpu(gpu).full_name;
    return interval_of(report, profile);
  };
  CHECK(on("v100-sxm2-32gb").kernels == 0);
  CHECK(on("v100-sxm2-32gb").profile == 0.03);
  CHECK_FALSE(on("v100-sxm2-32gb").carried);
  // Hopper was measured: 2.2 % of a half; B200 is scaled from it.
  CHECK(on("h100-96gb-hbm2e").kernels == doctest::Approx(0.011));
  CHECK(on("b200").kernels == doctest::Approx(0.063));  // 12.6 % of a half
  CHECK(on("b200").carried);
  const double apart = spread_of_profiles(Rate::gemm, profile);
  CHECK(on("b200").profile == doctest::Approx(std::hypot(0.03, apart)));
  CHECK(words(on("b200")).find("fitted on another GPU") != std::string::npos);
  // No fit saw fp8.
  report.fp8 = "te-delayed";
  CHECK(on("v100-sxm2-32gb").kernels == doctest::Approx(0.032));  // 6.4 % of a half
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

TEST_CASE("beyond the GPUs of its rows a fit does not know how late the slowest rank is") {
  Report report;
  report.step_time = 1.0;
  report.gpus = 128;
  report.split.exposed = {{"slowest_rank", 0.03}};
  SoftwareProfile profile;
  profile.residual = 0.02;
  profile.fitted_gpus = 8;
  // The expected slowest of 8 is 1.4236 deviations late, of 128 2.5877: 45.0 % of 3 % are beyond.
  // sinh(1.2816 * 1) / 1.2816 = 1.297 of it either way.
  CHECK(interval_of(report, profile).scale == doctest::Approx(0.03 * 0.45 * 1.297).epsilon(2e-3));
  CHECK(interval_of(report, profile).network == 0);  // no wire is in it
  profile.fitted_gpus = 128;
  CHECK(interval_of(report, profile).scale == 0);
  profile.fitted_gpus = 0;  // nobody fitted any: all of it
  CHECK(interval_of(report, profile).scale == doctest::Approx(0.03 * 1.297).epsilon(1e-3));
  report.gpus = 1;  // is never behind itself
  CHECK(interval_of(report, profile).scale == 0);
  report.gpus = 128;
  profile.fitted = {"jitter"};  // its rows could tell: within exp(0.7)
  CHECK(interval_of(report, profile).scale == doctest::Approx(0.03 * 0.797).epsilon(2e-3));
}

TEST_CASE("what the slowest rank costs counts once, not among the assumed costs as well") {
  Report report;
  report.step_time = 1.0;
  report.gpus = 8;
  report.split.exposed = {{"slowest_rank", 0.02}};
  report.split.by_provenance[static_cast<std::size_t>(Provenance::assumed)] = 0.05;
  SoftwareProfile profile;
  profile.provenance = Provenance::assumed;
  profile.residual = 0.02;
  CHECK(interval_of(report, profile).kernels == doctest::Approx(0.2 * 0.03));
}
