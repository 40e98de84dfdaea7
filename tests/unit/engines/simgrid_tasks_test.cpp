// SimGrid behind its door: sharing, bells, quietness, and that it leaves the process as it was.

#include "sim/engines/simgrid_tasks.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>
#include <exception>
#include <map>
#include <stdexcept>
#include <vector>

namespace stepcast::testing {
namespace {

class Recorder final : public SimgridTasks::Listener {
 public:
  SimgridTasks tasks{*this};
  std::map<int, Seconds> ends;
  std::map<int, Seconds> bells;
  std::vector<Share> after_bell;  // started as task 100 when a bell rings

 private:
  void task_ended(int id) override { ends[id] = tasks.now(); }
  void bell(int id) override {
    bells[id] = tasks.now();
    if (!after_bell.empty()) tasks.start(100, after_bell);
  }
};

TEST_CASE(
    "Two tasks that want all of a resource get half of it each, then the longer gets it all") {
  // Work 1 and 3: both at half speed until 2, then 2 more: ends 2 and 4.
  Recorder r;
  r.tasks.start(0, std::vector<Share>{{0, 1.0}});
  r.tasks.start(1, std::vector<Share>{{0, 3.0}});
  r.tasks.run();
  CHECK(r.ends[0] == doctest::Approx(2));
  CHECK(r.ends[1] == doctest::Approx(4));
}

TEST_CASE("A bell rings at its time, in between tasks, and may start one") {
  // Task 0 alone until 1.5, then shares with task 100 (work 0.25): that one ends at 2.0, when task
  // 0 has 2 - 1.5 - 0.25 = 0.25 left.
  Recorder r;
  r.after_bell = {{0, 0.25}};
  r.tasks.start(0, std::vector<Share>{{0, 2.0}});
  r.tasks.ring_at(1.5, 7);
  r.tasks.run();
  CHECK(r.bells[7] == doctest::Approx(1.5));
  CHECK(r.ends[100] == doctest::Approx(2.0));
  CHECK(r.ends[0] == doctest::Approx(2.25));
}

TEST_CASE(
    "A system that SimGrid's bottleneck-max-fair solver aborts on is solved, within capacity") {
  // Columns: a short task; one on resources 1 and 2; one on 0, 1, 2 and 4. 3, 5, 6 are clocks.
  const double asked[7][3] = {{5.62187e-07, 0, 2.80439e-04},
                              {0, 1.39012e-04, 2.82896e-04},
                              {0, 1.66825e-04, 2.23223e-04},
                              {0, 1.66825e-04, 0},
                              {1.38227e-06, 0, 2.8807e-04},
                              {6.82507e-06, 0, 0},
                              {0, 0, 2.8807e-04}};
  Recorder r;
  for (int task = 0; task < 3; ++task) {
    std::vector<Share> shares;
    for (int resource = 0; resource < 7; ++resource) {
      if (asked[resource][task] > 0) shares.push_back({resource, asked[resource][task]});
    }
    r.tasks.start(task, shares);
  }
  r.tasks.run();
  // Nothing contends with the short task at its full rate.
  CHECK(r.ends[0] == doctest::Approx(6.82507e-06));
  // The other two ask resource 1 for 4.219e-4 together, and both for more than their time alone.
  CHECK(std::max(r.ends[1], r.ends[2]) >= 4.2190e-04);
  CHECK(std::max(r.ends[1], r.ends[2]) <= 1.66825e-04 + 2.8807e-04);
}

TEST_CASE("Time counts from the start of each run") {
  for (int i = 0; i < 3; ++i) {
    Recorder r;
    CHECK(r.tasks.now() == 0);
    r.tasks.start(0, std::vector<Share>{{5, 2.0}});
    r.tasks.ring_at(1.0, 1);
    r.tasks.run();
    CHECK(r.ends[0] == doctest::Approx(2));
    CHECK(r.bells[1] == doctest::Approx(1));
  }
}

TEST_CASE("After silence nothing is told, and the next run starts clean") {
  {
    Recorder r;
    r.tasks.start(0, std::vector<Share>{{0, 2.0}});
    r.tasks.ring_at(1.0, 1);
    r.tasks.silence();
    r.tasks.run();
    CHECK(r.ends.empty());
    CHECK(r.bells.empty());
  }
  Recorder r;
  r.tasks.start(0, std::vector<Share>{{0, 1.0}});
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
  r.tasks.start(0, std::vector<Share>{{0, 1.0}});
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
