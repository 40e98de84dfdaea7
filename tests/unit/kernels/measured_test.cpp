// The kernel model against public measurements (data/measured.csv). Prints the errors; the bounds
// below are loose enough that a change of a few percent passes and a broken model does not.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>

#include "sim/kernels/kernel_cost.hpp"

using namespace stepcast;

namespace {

struct Errors {
  std::vector<double> relative;  // model / measured - 1
  double at(double quantile, bool absolute) const {
    std::vector<double> v = relative;
    if (absolute) {
      for (double& x : v) x = std::abs(x);
    }
    std::sort(v.begin(), v.end());
    return v[static_cast<std::size_t>(quantile * static_cast<double>(v.size() - 1))];
  }
};

std::vector<std::string> split(const std::string& line) {
  std::vector<std::string> cells;
  std::stringstream stream(line);
  for (std::string cell; std::getline(stream, cell, ',');) cells.push_back(cell);
  return cells;
}

}  // namespace

TEST_CASE("large products and attention are within 12 percent of the measured median") {
  // STEPCAST_MEASURED_KERNELS: the whole public table in the same columns, for a closer look.
  const char* other = std::getenv("STEPCAST_MEASURED_KERNELS");
  std::ifstream file(other ? other : STEPCAST_TEST_DATA "/data/measured.csv");
  REQUIRE(file);
  SoftwareProfile profile;
  profile.attention_kernel = AttentionKernel::best;
  std::map<std::string, KernelModel> models;
  std::map<std::string, Errors> errors;  // "GPU op size"
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("#") || line.starts_with("gpu,")) continue;
    const std::vector<std::string> cell = split(line);
    REQUIRE(cell.size() == 8);
    const auto number = [&](std::size_t i) { return std::stoll(cell[i]); };
    if (!models.count(cell[0])) models.emplace(cell[0], KernelModel(load_gpu(cell[0]), profile));
    const Kernel kernel =
        cell[1] == "gemm" ? gemm("g", Dtype::bf16, number(2), number(3), number(4))
                          : attention("a", KernelKind::attention_forward, Dtype::bf16, number(2),
                                      number(4), number(5), number(3), number(3), number(6), true);
    const bool large = hardware_flops(kernel) >= 1e11;
    const double measured_s = std::stod(cell[7]) * 1e-6;
    const KernelCost cost = models.at(cell[0]).cost(kernel);
    CHECK(cost.provenance == Provenance::modelled);
    errors[cell[0] + " " + cell[1] + (large ? " >= 0.1 TFLOP" : " smaller")].relative.push_back(
        cost.seconds / measured_s - 1);
  }
  REQUIRE(errors.size() >= 14);
  for (const auto& [key, e] : errors) {
    MESSAGE(key << ": " << e.relative.size() << " rows, |error| median "
                << std::round(1000 * e.at(0.5, true)) / 10 << " % p90 "
                << std::round(1000 * e.at(0.9, true)) / 10 << " %, signed median "
                << std::round(1000 * e.at(0.5, false)) / 10 << " %");
    const bool large = key.ends_with("TFLOP");
    CHECK(e.at(0.5, true) <= (large ? 0.12 : 0.20));
    CHECK(e.at(0.9, true) <= (large ? 0.25 : 0.50));
  }
}
