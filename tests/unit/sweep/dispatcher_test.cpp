// Every point once, whatever happens to workers.
#include "sim/sweep/dispatcher.hpp"

#include <doctest/doctest.h>
#include <signal.h>
#include <unistd.h>

#include <map>
#include <numeric>
#include <stdexcept>

#include "sim/engines/simgrid_tasks.hpp"

using namespace stepcast;

namespace {

std::vector<std::size_t> first(std::size_t n) {
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  return order;
}

Result numbered(std::size_t point) {
  Result result;
  result.state = "ok";
  result.numbers[0] = static_cast<double>(point);
  return result;
}

struct Outcome {
  std::map<std::size_t, int> times;  // that a point was taken
  std::map<std::size_t, std::string> failures;
  std::vector<std::string> said;
  bool complete = false;
};

Outcome run(const WorkOut& work, std::size_t points, int jobs,
            const std::atomic<bool>* stop = nullptr, std::atomic<bool>* set_stop = nullptr) {
  Outcome outcome;
  DispatchOptions options;
  options.jobs = jobs;
  options.stop = stop;
  options.say = [&](const std::string& text) { outcome.said.push_back(text); };
  Dispatcher dispatcher(work, options);
  outcome.complete = dispatcher.run(
      first(points), "fluid",
      [&](std::size_t point, const Result& result) {
        ++outcome.times[point];
        if (result.state == "failed") {
          outcome.failures[point] = result.why;
        } else {
          CHECK(result.numbers[0] == static_cast<double>(point));
        }
        if (set_stop != nullptr && outcome.times.size() == 5) set_stop->store(true);
      },
      [] {});
  return outcome;
}

void check_each_once(const Outcome& outcome, std::size_t points) {
  CHECK(outcome.complete);
  CHECK(outcome.times.size() == points);
  for (const auto& [point, times] : outcome.times) CHECK(times == 1);
}

}  // namespace

TEST_CASE(
    "every point is worked out once, by one worker or several, with the engine that was said") {
  for (const int jobs : {1, 3}) {
    const Outcome outcome = run(
        [](std::size_t point, const std::string& engine) {
          if (engine != "fluid") throw std::runtime_error("another engine");
          return numbered(point);
        },
        2000, jobs);
    check_each_once(outcome, 2000);
    CHECK(outcome.failures.empty());
  }
}

TEST_CASE("what a point throws is its result") {
  const Outcome outcome = run(
      [](std::size_t point, const std::string&) {
        if (point == 3) throw std::logic_error("an invariant");
        return numbered(point);
      },
      10, 2);
  check_each_once(outcome, 10);
  CHECK(outcome.failures == std::map<std::size_t, std::string>{{3, "an invariant"}});
}

TEST_CASE("a point that two workers die of is given up, all others are worked out") {
  const Outcome outcome = run(
      [](std::size_t point, const std::string&) {
        if (point == 17) {
          signal(SIGSEGV, SIG_DFL);  // doctest's handler would speak
          raise(SIGSEGV);
        }
        return numbered(point);
      },
      60, 2);
  check_each_once(outcome, 60);
  REQUIRE(outcome.failures.size() == 1);
  CHECK(outcome.failures.at(17) ==
        "two workers ended at this point; the last one ended by signal 11");
  CHECK(outcome.said.size() == 2);
}

TEST_CASE("a worker that dies once costs nothing but time") {
  // The first process to come to point 5 is killed from outside, as by the kernel for its memory.
  char name[] = "/tmp/stepcast-once-XXXXXX";
  const int file = mkstemp(name);
  REQUIRE(file >= 0);
  close(file);
  const std::string once = name;
  const Outcome outcome = run(
      [once](std::size_t point, const std::string&) {
        if (point == 5 && unlink(once.c_str()) == 0) raise(SIGKILL);
        return numbered(point);
      },
      40, 2);
  check_each_once(outcome, 40);
  CHECK(outcome.failures.empty());
}

TEST_CASE("a sweep that is stopped ends soon, with what there is") {
  std::atomic<bool> stop{false};
  const Outcome outcome = run(
      [](std::size_t point, const std::string&) {
        usleep(1000);
        return numbered(point);
      },
      100'000, 2, &stop, &stop);
  CHECK_FALSE(outcome.complete);
  CHECK(outcome.times.size() >= 5);
  CHECK(outcome.times.size() < 10'000);
}

TEST_CASE("a worker whose clock is worn goes on in a new process, and loses nothing") {
  // 700 simulated seconds a point: a process is worn after three (4,096 to 6,144 s), if the batch
  // ends there.
  struct Ignore : SimgridTasks::Listener {
    void task_ended(int) override {}
    void bell(std::int64_t) override {}
  };
  std::map<double, int> processes;
  Outcome outcome;
  DispatchOptions options;
  options.jobs = 2;
  options.say = [&](const std::string& text) { outcome.said.push_back(text); };
  Dispatcher dispatcher(
      [](std::size_t point, const std::string&) {
        Ignore ignore;
        SimgridTasks tasks(ignore);
        tasks.ring_at(700, 0);
        tasks.run();
        Result result = numbered(point);
        result.numbers[1] = static_cast<double>(getpid());
        return result;
      },
      options);
  outcome.complete = dispatcher.run(
      first(3000), "fluid",
      [&](std::size_t point, const Result& result) {
        ++outcome.times[point];
        CHECK(result.numbers[0] == static_cast<double>(point));
        ++processes[result.numbers[1]];
      },
      [] {});
  check_each_once(outcome, 3000);
  CHECK(processes.size() > 4);  // batches are of 256 points at most, so of more than eleven
  CHECK(outcome.said.empty());  // nobody died
}
