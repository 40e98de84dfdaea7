// What more of a resource gains, by hand and against forecasts of a machine that has more of it.
#include "sim/explain/sensitivity.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "sim/forecast/forecast.hpp"
#include "tests/unit/engines/small_program.hpp"

using namespace stepcast;
using stepcast::testing::SmallProgram;

namespace {

double gain_of(const std::vector<Sensitivity>& list, const std::string& resource) {
  const auto found = std::find_if(list.begin(), list.end(),
                                  [&](const Sensitivity& s) { return s.resource == resource; });
  REQUIRE(found != list.end());
  return found->gain;
}

Forecast of(const std::string& more) {
  return forecast(parse_scenario(
      "model = \"llama-3.2-1b\"\nseq_len = 2048\nengine = \"formula\"\n" + more, "test"));
}

std::vector<Sensitivity> all(const Forecast& f) {
  return sensitivities(f.schedule, f.costs, *make_formula_engine(), {}, f.resolved.profile,
                       f.report.step_time);
}

}  // namespace

TEST_CASE("a collective gains by its fullest link only, and by less latency") {
  // 10 ms, of which the NIC is busy for 8 and NVLink for 5.
  SmallProgram p;
  p.all_reduce("ar", "world", "nccl",
               {.solo = 10e-3, .demands = {{"nic", 8e-3}, {"nvlink", 5e-3}, {"sm", 9e-3}}});
  const Schedule schedule = p.schedule();
  const CostTable costs = p.costs();
  const auto solo = [&](const char* resource) {
    return with_more(costs, schedule, resource, 1.1).costs.front().solo;
  };
  CHECK(solo("nic") == doctest::Approx(10e-3 - 8e-3 + 8e-3 / 1.1));
  CHECK(solo("nvlink") == doctest::Approx(10e-3));
  CHECK(solo("latency") == doctest::Approx(8e-3 + 2e-3 / 1.1));
  CHECK(solo("gpu") == doctest::Approx(10e-3));  // its SMs only wait for the wires
  // A NIC ten times as fast leaves NVLink to bind.
  CHECK(with_more(costs, schedule, "nic", 10).costs.front().solo == doctest::Approx(5e-3));
}

TEST_CASE("a NIC that its own PCIe link hides gains as the two together") {
  SmallProgram p;
  p.all_reduce("ar", "world", "nccl",
               {.solo = 12e-3, .demands = {{"pcie", 10e-3}, {"nic", 9.6e-3}, {"nvlink", 5e-3}}});
  const auto solo = [&](const char* resource, double factor) {
    return with_more(p.costs(), p.schedule(), resource, factor).costs.front().solo;
  };
  CHECK(solo("nic", 1.1) == doctest::Approx(2e-3 + 10e-3 / 1.1));
  CHECK(solo("pcie", 1.1) == doctest::Approx(12e-3));
  CHECK(solo("nic", 10) == doctest::Approx(5e-3));  // NVLink
}

TEST_CASE("a kernel gains by what it is bound by") {
  SmallProgram p;
  p.compute("gemm", "compute", {.solo = 10e-3, .demands = {{"sm", 10e-3}, {"hbm", 4e-3}}});
  p.compute("norm", "compute", {.solo = 6e-3, .demands = {{"sm", 2e-3}, {"hbm", 6e-3}}});
  const Schedule schedule = p.schedule();
  const CostTable costs = p.costs();
  const CostTable gpu = with_more(costs, schedule, "gpu", 1.25);
  CHECK(gpu.costs[0].solo == doctest::Approx(8e-3));
  CHECK(gpu.costs[1].solo == doctest::Approx(6e-3));
  const CostTable hbm = with_more(costs, schedule, "hbm", 1.25);
  CHECK(hbm.costs[0].solo == doctest::Approx(10e-3));
  CHECK(hbm.costs[1].solo == doctest::Approx(4.8e-3));
}

TEST_CASE("between nodes on slow NICs the NIC gains most, as a forecast with faster NICs agrees") {
  const std::string slow =
      "cluster = \"dgx-a100\"\nnodes = 4\nstrategy = \"ddp\"\nnetwork = \"roce\"\nnic_gbps = ";
  const Forecast f = of(slow + "2.5\n");
  const std::vector<Sensitivity> list = all(f);
  CHECK(list.front().resource == "nic");
  // NCCL sees other speeds then and may plan otherwise, so only nearly the same.
  const double really = f.report.step_time / of(slow + "2.75\n").report.step_time - 1;
  CHECK(gain_of(list, "nic") == doctest::Approx(really).epsilon(0.25));
  CHECK(gain_of(list, "nic") > 0.03);
}

TEST_CASE("one GPU gains by compute and memory bandwidth, and by no link") {
  const std::vector<Sensitivity> list =
      all(of("cluster = \"dgx-h100\"\ngpus = 1\nstrategy = \"ddp\"\n"));
  CHECK(gain_of(list, "gpu") + gain_of(list, "hbm") > 0.05);
  for (const char* link : {"nvlink", "nic", "fabric", "latency"}) CHECK(gain_of(list, link) == 0);
}

TEST_CASE("what nothing waits for gains nothing, also where the slowest rank is waited for") {
  const Forecast f = of("cluster = \"dgx-h100\"\nstrategy = \"ddp\"\n");  // one node
  REQUIRE(f.straggling > 0);
  const std::vector<Sensitivity> list = all(f);
  CHECK(std::abs(gain_of(list, "nic")) < 1e-9);
  CHECK(std::abs(gain_of(list, "loader")) < 1e-9);
  // Kernels that are a tenth faster are late by a tenth less, too.
  CHECK(gain_of(list, "gpu") > 0);
}
