// Every row of NCCL's own tables, with NCCL's own search results as inputs.

#include <doctest/doctest.h>

#include <cmath>

#include "sim/collectives/nccl/tuner.hpp"
#include "tests/unit/collectives/golden.hpp"

using namespace stepcast;

namespace {

// Equal to as many significant digits as the table prints, and to the rounding of the float that
// NCCL computes in.
bool equal_to_digits(double got, double want, int digits) {
  const double half_digit = 0.5 * std::pow(10.0, std::floor(std::log10(want)) - digits + 1);
  return std::abs(got - want) <= half_digit + 2e-6 * want;
}

nccl::Tuner tuner_of(const golden::Case& c) {
  return nccl::Tuner(nccl::constants("2.28.9"), c.comm, c.search);
}

}  // namespace

TEST_CASE("latency and bandwidth of every enabled pair are NCCL's, and no other is enabled") {
  const auto cases = golden::cases();
  REQUIRE(cases.size() == 250);
  int compared = 0;
  for (const golden::Line& line : golden::lines("model.csv")) {
    const golden::Case& c = golden::find(cases, line);
    CAPTURE(c.name());
    CAPTURE(to_string(line.function));
    const nccl::CostModel model = tuner_of(c).model();
    std::size_t enabled = 0;
    for (int a = 0; a < nccl::algorithm_count; ++a) {
      for (int p = 0; p < nccl::protocol_count; ++p) {
        enabled += model.cells[static_cast<int>(line.function)][a][p].bandwidth_gbps > 0;
      }
    }
    CHECK(enabled == line.cells.size());
    for (const golden::Cell& cell : line.cells) {
      const nccl::Cell& got = model.at(line.function, cell.algorithm, cell.protocol);
      CAPTURE(to_string(cell.algorithm));
      CAPTURE(to_string(cell.protocol));
      CAPTURE(got.latency_us);
      CAPTURE(cell.a);
      CAPTURE(got.bandwidth_gbps);
      CAPTURE(cell.b);
      CHECK(equal_to_digits(got.latency_us, cell.a, 4));
      CHECK(equal_to_digits(got.bandwidth_gbps, cell.b, 6));
      ++compared;
    }
  }
  CHECK(compared == 4021);
}

TEST_CASE("algorithm, protocol, time, channels and threads of every call are NCCL's") {
  const auto cases = golden::cases();
  int compared = 0;
  for (const golden::Line& line : golden::lines("select.csv")) {
    const golden::Case& c = golden::find(cases, line);
    const nccl::Tuner tuner = tuner_of(c);
    CAPTURE(c.name());
    CAPTURE(to_string(line.function));
    CHECK(tuner.channels() == c.channels);
    CHECK(nccl::nvls_channels(c.comm) == c.nvls_channels);
    std::int64_t bytes = 256;
    for (const golden::Cell& want : line.cells) {
      const nccl::Choice got = tuner.choose(line.function, bytes, Dtype::fp32, Reduction::sum);
      CAPTURE(bytes);
      CAPTURE(got.time_us);
      CAPTURE(want.a);
      CHECK(to_string(got.algorithm) == to_string(want.algorithm));
      CHECK(to_string(got.protocol) == to_string(want.protocol));
      CHECK(equal_to_digits(got.time_us, want.a, 5));
      CHECK(got.launch.channels == static_cast<int>(want.b));
      CHECK(got.launch.threads == static_cast<int>(want.c));
      bytes *= 2;
      ++compared;
    }
  }
  CHECK(compared == 32500);
}
