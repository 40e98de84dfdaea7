#include "sim/plan/workers.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <set>
#include <stdexcept>

#include "base/error.hpp"

using namespace stepcast;

TEST_CASE("answers come back in the order of the pieces, whoever made them") {
  for (const int workers : {1, 3}) {
    CAPTURE(workers);
    int done = 0;
    const auto work = [](int i) { return std::string(static_cast<std::size_t>(i) * 10000, 'a'); };
    const std::vector<std::string> list = in_workers(20, workers, work, [&](int n) { done = n; });
    REQUIRE(list.size() == 20);
    for (std::size_t i = 0; i < list.size(); ++i) CHECK(list[i].size() == i * 10000);
    CHECK(done == 20);
  }
}

TEST_CASE("several workers are other processes") {
  const std::vector<std::string> pids =
      in_workers(8, 4, [](int) { return std::to_string(getpid()); });
  CHECK(std::set<std::string>(pids.begin(), pids.end()).count(std::to_string(getpid())) == 0);
}

TEST_CASE("what a piece throws is thrown here, of several the first piece's") {
  const auto work = [](int i) -> std::string {
    if (i == 3) throw InputError("three");
    if (i == 5) throw InfeasibleError("five");
    return "";
  };
  CHECK_THROWS_WITH_AS(in_workers(8, 2, work), "three", InputError);
  CHECK_THROWS_AS(in_workers(8, 2,
                             [](int i) -> std::string {
                               if (i == 2) throw InfeasibleError("two");
                               return "";
                             }),
                  InfeasibleError);
}

TEST_CASE("a worker that dies is noticed") {
  CHECK_THROWS_AS(in_workers(4, 2,
                             [](int i) -> std::string {
                               if (i == 1) _exit(3);
                               return "x";
                             }),
                  std::runtime_error);
}

TEST_CASE("no pieces are no answers") { CHECK(in_workers(0, 4, {}).empty()); }
