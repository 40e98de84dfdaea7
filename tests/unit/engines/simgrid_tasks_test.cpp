// SimGrid behind its door: sharing, bells, quietness, and that it leaves the process as it was.

#include "sim/engines/simgrid_tasks.hpp"

#include <doctest/doctest.h>

#include <csignal>
#include <exception>
#include <map>
#include <stdexcept>
#include <vector>

namespace stepcast::testing {
namespace {

const std::vector<Ask> all{{0, 1.0}};  // of resource 0

class Recorder final : public SimgridTasks::Listener {
 public:
  SimgridTasks tasks{*this};
  std::map<int, Seconds> ends;
  std::map<int, Seconds> bells;
  std::vector<Ask> after_bell;  // started as task 100 of 0.25 s when a bell rings

 private:
  void task_ended(int id) override { ends[id] = tasks.now(); }
  void bell(std::int64_t id) override {
    bells[static_cast<int>(id)] = tasks.now();
    if (!after_bell.empty()) tasks.start(100, 0.25, after_bell);
  }
};

TEST_CASE(
    "Two tasks that want all of a resource get half of it each, then the longer gets it all") {
  // Work 1 and 3: both at half speed until 2, then 2 more: ends 2 and 4.
  Recorder r;
  r.tasks.start(0, 1.0, all);
  r.tasks.start(1, 3.0, all);
  r.tasks.run();
  CHECK(r.ends[0] == doctest::Approx(2));
  CHECK(r.ends[1] == doctest::Approx(4));
}

TEST_CASE("A bell rings at its time, in between tasks, and may start one") {
  // Task 0 alone until 1.5, then shares with task 100 (0.25 alone): that one ends at 2.0, when task
  // 0 has 2 - 1.5 - 0.25 = 0.25 left.
  Recorder r;
  r.after_bell = all;
  r.tasks.start(0, 2.0, all);
  r.tasks.ring_at(1.5, 7);
  r.tasks.run();
  CHECK(r.bells[7] == doctest::Approx(1.5));
  CHECK(r.ends[100] == doctest::Approx(2.0));
  CHECK(r.ends[0] == doctest::Approx(2.25));
}

TEST_CASE("A GEMM beside two collectives gets the SMs that they leave") {
  // SMs (0): all, 17 % and 13 %; the collectives are at full speed until 1, so the GEMM gets 70 %
  // until then and all for the missing 0.3.
  Recorder r;
  r.tasks.start(0, 1.0, std::vector<Ask>{{0, 1.0}, {1, 0.2}});
  r.tasks.start(1, 1.0, std::vector<Ask>{{0, 0.17}, {1, 0.17}, {2, 0.78}});
  r.tasks.start(2, 1.0, std::vector<Ask>{{0, 0.13}, {1, 0.24}, {2, 0.18}, {3, 0.58}});
  r.tasks.run();
  CHECK(r.ends[1] == doctest::Approx(1));
  CHECK(r.ends[2] == doctest::Approx(1));
  CHECK(r.ends[0] == doctest::Approx(1.3));
}

TEST_CASE("Two bottlenecks and a short task are solved, where SimGrid's own solver aborts") {
  // Microseconds. The short task hardly touches the others. Of those two, a (167 alone) and b (288
  // alone), resource 1 is the bottleneck: both get half of it, 0.5/139 and 0.5/283 of their work a
  // microsecond; resource 2 is then 167 * 0.5/139 + 223 * 0.5/283 = 0.994 full, so it does not hold
  // them. a ends after 139/0.5 = 278; b has then done 139/283 of its work, and the rest goes as
  // alone: 288 * (1 - 139/283) = 146.5.
  const double us = 1e-6;
  Recorder r;
  r.tasks.start(0, 6.8 * us, std::vector<Ask>{{0, 0.56 / 6.8}, {3, 1.4 / 6.8}});
  r.tasks.start(1, 167 * us, std::vector<Ask>{{1, 139.0 / 167}, {2, 1.0}});
  r.tasks.start(2, 288 * us,
                std::vector<Ask>{{0, 280.0 / 288}, {1, 283.0 / 288}, {2, 223.0 / 288}, {3, 1.0}});
  r.tasks.run();
  CHECK(r.ends[0] == doctest::Approx(6.8 * us));
  CHECK(r.ends[1] == doctest::Approx(278 * us));
  CHECK(r.ends[2] == doctest::Approx((278 + 288 * (1 - 139.0 / 283)) * us));
}

TEST_CASE("Tasks that share nothing do not hold each other up") {
  constexpr int tasks = 64;
  Recorder r;
  for (int i = 0; i < tasks; ++i) r.tasks.start(i, 1.0 + i, {});
  r.tasks.run();
  for (int i = 0; i < tasks; ++i) {
    CAPTURE(i);
    REQUIRE(r.ends[i] == doctest::Approx(1.0 + i).epsilon(1e-9));
  }
}

TEST_CASE("Time counts from the start of each run") {
  for (int i = 0; i < 3; ++i) {
    Recorder r;
    CHECK(r.tasks.now() == 0);
    r.tasks.start(0, 2.0, all);
    r.tasks.ring_at(1.0, 1);
    r.tasks.run();
    CHECK(r.ends[0] == doctest::Approx(2));
    CHECK(r.bells[1] == doctest::Approx(1));
  }
}

TEST_CASE("After silence nothing is told, and the next run starts clean") {
  {
    Recorder r;
    r.tasks.start(0, 2.0, all);
    r.tasks.ring_at(1.0, 1);
    r.tasks.silence();
    r.tasks.run();
    CHECK(r.ends.empty());
    CHECK(r.bells.empty());
  }
  Recorder r;
  r.tasks.start(0, 1.0, all);
  r.tasks.run();
  CHECK(r.ends[0] == doctest::Approx(1));
}

TEST_CASE("Two runs at a time are refused") {
  Recorder r;
  CHECK_THROWS_AS(Recorder(), std::logic_error);
  r.tasks.run();
}

TEST_CASE("Handlers of signals and of terminate are the program's own after a run") {
  struct sigaction before[2];
  sigaction(SIGINT, nullptr, &before[0]);
  sigaction(SIGSEGV, nullptr, &before[1]);
  const std::terminate_handler terminate = std::get_terminate();
  Recorder r;
  r.tasks.start(0, 1.0, all);
  r.tasks.run();
  struct sigaction after[2];
  sigaction(SIGINT, nullptr, &after[0]);
  sigaction(SIGSEGV, nullptr, &after[1]);
  CHECK((before[0].sa_handler == after[0].sa_handler));
  CHECK((before[1].sa_handler == after[1].sa_handler));
  CHECK((std::get_terminate() == terminate));
}

}  // namespace
}  // namespace stepcast::testing
