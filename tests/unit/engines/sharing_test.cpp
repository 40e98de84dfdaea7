// Bottleneck max fairness, by hand and by its definition.

#include "sim/engines/sharing.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace stepcast::testing {
namespace {

using Asks = std::vector<Ask>;

std::vector<double> speeds(const std::vector<Asks>& tasks) {
  Sharing sharing;
  for (std::size_t i = 0; i < tasks.size(); ++i) sharing.add(static_cast<int>(i), tasks[i]);
  std::vector<double> result;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    result.push_back(sharing.speed(static_cast<int>(i)));
  }
  return result;
}

TEST_CASE("A task alone is at full speed, two that want all of a resource at half") {
  CHECK(speeds({{{0, 1.0}}}) == std::vector<double>{1});
  CHECK(speeds({{{0, 1.0}}, {{0, 1.0}}}) == std::vector<double>{0.5, 0.5});
  CHECK(speeds({{{0, 1.0}}, {{1, 1.0}}}) == std::vector<double>{1, 1});
}

TEST_CASE("Who wants less than the fair part gets it, the others share what is left") {
  // Thirds would be 0.33; 0.17 and 0.13 want less, so the GEMM gets 0.7.
  const auto three = speeds({{{0, 1.0}}, {{0, 0.17}}, {{0, 0.13}}});
  CHECK(three[0] == doctest::Approx(0.7));
  CHECK(three[1] == 1);
  CHECK(three[2] == 1);
  // 0.2 gets its wish; 0.8 is left for two that want 0.5 and 1: 0.4 each, speeds 0.8 and 0.4.
  const auto shared = speeds({{{0, 0.2}}, {{0, 0.5}}, {{0, 1.0}}});
  CHECK(shared[0] == 1);
  CHECK(shared[1] == doctest::Approx(0.8));
  CHECK(shared[2] == doctest::Approx(0.4));
}

TEST_CASE("A task that another resource holds leaves more of this one") {
  // a and b share the NIC (half each, speed 0.5). a also asks all of HBM and so takes half of it;
  // the copy c takes the other half.
  const auto s = speeds({{{0, 1.0}, {1, 1.0}}, {{0, 1.0}}, {{1, 1.0}}});
  CHECK(s[0] == doctest::Approx(0.5));
  CHECK(s[1] == doctest::Approx(0.5));
  CHECK(s[2] == doctest::Approx(0.5));
  // With HBM asked by a third of its speed only, c gets 5/6.
  const auto t = speeds({{{0, 1.0}, {1, 1.0 / 3}}, {{0, 1.0}}, {{1, 1.0}}});
  CHECK(t[2] == doctest::Approx(5.0 / 6));
}

TEST_CASE("Two interlocked bottlenecks: each task is held by another resource") {
  // a asks 1.0 of x and 0.5 of y, b 0.5 of x and 1.0 of y. Full: a + b/2 = 1 and a/2 + b = 1, so
  // both go at 2/3: a has 2/3 of x, b 1/3; a is fair on x, b on y.
  const auto s = speeds({{{0, 1.0}, {1, 0.5}}, {{0, 0.5}, {1, 1.0}}});
  CHECK(s[0] == doctest::Approx(2.0 / 3));
  CHECK(s[1] == doctest::Approx(2.0 / 3));
}

TEST_CASE("Tasks come and go, ids are used again") {
  Sharing sharing;
  sharing.add(0, Asks{{0, 1.0}});
  sharing.add(1, Asks{{0, 1.0}});
  CHECK(sharing.speed(0) == 0.5);
  sharing.remove(0);
  CHECK(sharing.speed(1) == 1);
  sharing.add(0, Asks{{0, 0.25}});
  CHECK(sharing.speed(0) == 1);
  CHECK(sharing.speed(1) == 0.75);
}

TEST_CASE("Random systems: within capacity always, bottleneck max fair where the levels settle") {
  std::mt19937_64 random(1);
  const auto unit = [&] { return static_cast<double>(random() >> 11) * 0x1.0p-53; };
  int settled = 0;
  constexpr int systems = 20000;
  for (int n = 0; n < systems; ++n) {
    CAPTURE(n);
    const std::size_t count = 2 + random() % 5;
    std::vector<Asks> tasks(count);
    Sharing sharing;
    for (std::size_t i = 0; i < count; ++i) {
      for (int r = 0; r < 4; ++r) {
        if (random() % 2 == 0)
          tasks[i].push_back({r, random() % 3 == 0 ? 1.0 : 1e-3 + 0.999 * unit()});
      }
      sharing.add(static_cast<int>(i), tasks[i]);
    }
    std::vector<double> speed;
    double used[4] = {};
    double most[4] = {};
    for (std::size_t i = 0; i < count; ++i) {
      speed.push_back(sharing.speed(static_cast<int>(i)));
      REQUIRE(speed[i] > 0);
      REQUIRE(speed[i] <= 1);
      for (const Ask& ask : tasks[i]) {
        used[ask.resource] += ask.share * speed[i];
        most[ask.resource] = std::max(most[ask.resource], ask.share * speed[i]);
      }
    }
    for (const double of : used) REQUIRE(of <= 1 + 1e-9);
    if (!sharing.settled()) continue;
    ++settled;
    for (std::size_t i = 0; i < count; ++i) {
      bool fair = speed[i] == 1;
      for (const Ask& ask : tasks[i]) {
        fair = fair || (used[ask.resource] >= 1 - 1e-9 &&
                        ask.share * speed[i] >= most[ask.resource] - 1e-9);
      }
      REQUIRE(fair);
    }
  }
  CHECK(settled == systems);  // none is known that does not
}

}  // namespace
}  // namespace stepcast::testing
