// What a KernelModel says of the shapes that were measured, table, clocks and all: the errors that
// a change of a few percent does not move and a broken model does. Shapes left out:
// tests/unit/kernel_validation.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "sim/kernels/kernel_cost.hpp"
#include "sim/kernels/shape_tables.hpp"

using namespace stepcast;

namespace {

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

TEST_CASE("at a benchmark's clocks measured products come back within 3 percent") {
  for (const std::string& gpu : measured_gpus()) {
    const KernelModel model(load_gpu(gpu), SoftwareProfile{}, Clocks::benchmark);
    std::vector<double> errors;
    for (const MeasuredGemm& row : measured_gemms(gpu)) {
      errors.push_back(std::abs(model.cost(kernel_of(row)).seconds / (row.us * 1e-6) - 1));
    }
    CAPTURE(gpu);
    CHECK(median(errors) < 0.03);
  }
}

TEST_CASE("a step's long products run as measured, its short ones up to a third slower") {
  // 1e12 FLOP take more than a millisecond on each of them: the clock has settled.
  for (const std::string& gpu : measured_gpus()) {
    const KernelModel model(load_gpu(gpu), SoftwareProfile{});
    std::vector<double> small, large;
    for (const MeasuredGemm& row : measured_gemms(gpu)) {
      const Kernel kernel = kernel_of(row);
      const double ratio = model.cost(kernel).seconds / (row.us * 1e-6);
      (model_flops(kernel) > 1e12 ? large : small).push_back(ratio);
    }
    CAPTURE(gpu);
    CHECK(median(large) > 1.0);
    CHECK(median(large) < 1.10);
    CHECK(median(small) > median(large));
    CHECK(median(small) < 1.34);
  }
}

TEST_CASE("attention in a step is the measured kernel without what else its benchmark did") {
  // The benchmark rotates and writes a cache, and starts several kernels: at 1,024 tokens half of
  // its time, at 16,384 a few percent.
  SoftwareProfile profile;
  profile.attention_kernel = AttentionKernel::best;
  for (const std::string gpu : {"a100-sxm-80gb", "h100-sxm", "h200"}) {
    const KernelModel model(load_gpu(gpu), profile);
    std::vector<double> shortest, longest;
    for (const MeasuredAttention& row : measured_attention(gpu)) {
      const double ratio = model.cost(kernel_of(row)).seconds / (row.us * 1e-6);
      if (row.sequence == 1024) shortest.push_back(ratio);
      if (row.sequence == 16384) longest.push_back(ratio);
    }
    CAPTURE(gpu);
    CHECK(median(longest) == doctest::Approx(0.97).epsilon(0.03));
    CHECK(median(shortest) < 0.8);
    CHECK(median(shortest) > 0.3);
  }
}
