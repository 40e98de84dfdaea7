#include "sim/schedule/timeline.hpp"

#include <doctest/doctest.h>

#include <random>
#include <stdexcept>

#include "sim/schedule/builder.hpp"

using namespace stepcast;

namespace {

using Intervals = std::vector<Interval>;

Intervals random_intervals(std::mt19937& random) {
  Intervals list;
  for (int i = 0; i < 12; ++i) {
    const double begin = static_cast<double>(random() % 50);
    list.push_back({begin, begin + static_cast<double>(random() % 6)});
  }
  return merged(list);
}

// Whether the unit interval [at, at + 1) lies in the list; all ends are whole numbers.
bool holds(const Intervals& list, int at) {
  for (const Interval& interval : list) {
    if (interval.begin <= at && at + 1 <= interval.end) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("the period is the last step's end minus the end before, or the only step's length") {
  Timeline timeline;
  CHECK_THROWS_AS(timeline.period(), std::logic_error);
  timeline.steps.push_back({"steady", 0, 2.0, 12.0});
  CHECK(timeline.period() == 10.0);
  timeline.steps.push_back({"steady", 0, 12.0, 19.0});
  CHECK(timeline.period() == 7.0);
}

TEST_CASE("intervals merge, intersect and subtract as sets of seconds do") {
  std::mt19937 random(11);
  for (int round = 0; round < 200; ++round) {
    const Intervals a = random_intervals(random);
    const Intervals b = random_intervals(random);
    const Intervals both = intersect(a, b);
    const Intervals rest = subtract(a, b);
    int count_both = 0;
    int count_rest = 0;
    for (int at = 0; at < 60; ++at) {
      CHECK(holds(both, at) == (holds(a, at) && holds(b, at)));
      CHECK(holds(rest, at) == (holds(a, at) && !holds(b, at)));
      count_both += holds(both, at) ? 1 : 0;
      count_rest += holds(rest, at) ? 1 : 0;
    }
    CHECK(length(both) == count_both);
    CHECK(length(rest) == count_rest);
    CHECK(length(a) == count_both + count_rest);
  }
}

TEST_CASE("touching intervals become one and empty ones vanish") {
  const Intervals list = merged({{3, 4}, {1, 3}, {6, 6}, {8, 7}});
  REQUIRE(list.size() == 1);
  CHECK(list[0].begin == 1.0);
  CHECK(list[0].end == 4.0);
}

TEST_CASE("a stream's occupancy is its busy share of the window, whatever step an op belongs to") {
  ScheduleBuilder b("two streams", Mesh{1, 1});
  const StreamIndex compute = b.stream("compute");
  const StreamIndex comm = b.stream("comm");
  b.role("all", 0, 1);
  b.step("steady");
  const OpIndex work = b.compute("work", compute, {}, {}, {});
  const OpIndex wait = b.stream_wait(comm, work);
  const OpIndex host = b.host_work("think", 1);
  const OpIndex send = b.compute("send", comm, {}, {}, {});
  const Schedule schedule = b.take();

  Timeline timeline;
  timeline.steps = {{"steady", 0, 0.0, 10.0}, {"steady", 0, 10.0, 20.0}};
  const auto span = [&](int step, OpIndex op, double start, double end) {
    Span s;
    s.step = step;
    s.op = op;
    s.start = start;
    s.end = end;
    timeline.spans.push_back(s);
  };
  span(0, work, 0, 6);
  span(0, send, 6, 12);  // reaches two seconds into the next window
  span(1, work, 10, 16);
  span(1, wait, 10, 20);  // a stream that waits is not busy
  span(1, host, 10, 20);  // nor is the host a stream
  span(1, send, 16, 22);  // two seconds beyond its window
  const std::vector<double> shares = occupancy(timeline, schedule, 0, {10, 20});
  REQUIRE(shares.size() == 2);
  CHECK(shares[0] == doctest::Approx(0.6));
  CHECK(shares[1] == doctest::Approx(0.6));  // 10 to 12 and 16 to 20
  const Intervals sending = busy(timeline, schedule, 0, comm, {10, 20});
  REQUIRE(sending.size() == 2);
  CHECK(sending[0].end == 12.0);
  CHECK(sending[1].begin == 16.0);
  CHECK(busy(timeline, schedule, 1, comm, {10, 20}).empty());  // another role
}
