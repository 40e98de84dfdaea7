#include "sim/advise/scaling.hpp"

#include <doctest/doctest.h>

using namespace stepcast;

TEST_CASE("a step that grows by 1 ms a node: an added node brings half at 396") {
  // T(n) = n / (1 + n/1000); T(n + m) - T(n) = m / ((1 + n/1000)(1 + (n + m)/1000)), m = n/10. The
  // share is 1/1.001. Half of it where (1 + x)(1 + 1.1 x) = 2.002, x = 0.3953:
  //   n = 395, m = 39: 1.395 * 1.434 = 2.0004; n = 396: 1.396 * 1.435 = 2.0033
  const auto step = [](int nodes) { return 1 + nodes / 1000.0; };
  const ScalingLimit limit = scaling_limit(step, 1, 4096, 8, 1);
  REQUIRE(limit.found);
  CHECK(limit.limit.nodes == 396);
  CHECK(limit.limit.gpus == 3168);
  CHECK(limit.limit.gain < 0.5);
}

TEST_CASE("a step of the same length at every size has no limit") {
  const ScalingLimit limit = scaling_limit([](int) { return 2.0; }, 2, 1024, 8, 1);
  CHECK_FALSE(limit.found);
  CHECK(limit.points.size() == 10);  // 2, 4, ..., 1024
  for (const ScalingPoint& point : limit.points) CHECK(point.gain == doctest::Approx(1.0));
}

TEST_CASE("a step that grows with the nodes brings nothing from the first size on") {
  // t = n: T is 1 at every size.
  const ScalingLimit limit = scaling_limit([](int n) { return 1.0 * n; }, 2, 1024, 8, 1);
  REQUIRE(limit.found);
  CHECK(limit.limit.nodes == 2);
}
