// One minimal schedule a misuse, with the sentence it must give, and the mended schedule, which
// must give none: indices, buffers and roots that name nothing.
#include <stdexcept>
#include <string>

#include "tests/unit/schedule/problem_sentences.hpp"
#include "tests/unit/schedule/small_schedules.hpp"

using namespace stepcast;
using namespace stepcast::test;

TEST_CASE("broken indices are named and nothing crashes") {
  const Schedule sound = everything();
  REQUIRE(problems(sound) == Sentences{});
  const auto broken = [&](auto&& breaks) {
    Schedule schedule = sound;
    breaks(schedule, schedule.roles[0].steps[0].ops[6]);  // forward.compute.layers.0.m0
    const std::vector<std::string> found = problems(schedule);
    try {
      to_text(schedule);  // prints "?9", or refuses a range beyond its arena
    } catch (const std::logic_error&) {
    }
    return found.empty() ? std::string("none") : found.front();
  };
  const std::string op = "even/first: forward.compute.layers.0.m0 ";
  CHECK(broken([](Schedule&, Op& o) { o.stream = 9; }) ==
        op + "is on a stream that does not exist");
  CHECK(broken([](Schedule&, Op& o) { o.lane = -1; }) == op + "is on a lane that does not exist");
  CHECK(broken([](Schedule&, Op& o) {
          o.kernels = {100, 1};
        }) == op + "runs kernels that do not exist");
  CHECK(broken([](Schedule&, Op& o) {
          o.reads = {-1, 1};
        }) == op + "reads views that do not exist");
  CHECK(broken([](Schedule&, Op& o) {
          o.waits = {0, 1 << 20};
        }) == op + "waits on what does not exist");
  CHECK(broken([](Schedule& s, Op& o) {
          s.views[static_cast<std::size_t>(o.reads.first)].buffer = 77;
        }) == op + "reads a buffer that does not exist");
  CHECK(broken([](Schedule& s, Op& o) {
          s.views[static_cast<std::size_t>(o.reads.first)].bytes = 3 * mib;
        }) == op + "reads full[0B+3MiB], beyond the buffer's 2097152 bytes");
  CHECK(broken([](Schedule& s, Op&) { s.refs[0].op = 1000; }) ==
        "even/first: forward.wait.layers.0.m0 waits on an op that does not exist and never runs");
  CHECK(broken([](Schedule& s, Op&) { s.refs[0].steps_back = -1; }) ==
        "even/first: forward.wait.layers.0.m0 waits on forward.all_gather.layers.0.m0 of a later "
        "step, which cannot have run");
  CHECK(broken([](Schedule&, Op& o) { o.unit = 5; }) ==
        "even/first: forward.compute.?5.m0 belongs to a unit that does not exist");
}

TEST_CASE("buffers that do not hold together are named") {
  const auto with = [](auto&& breaks) {
    Schedule schedule = parse_schedule(machine + "end\n", "test");
    breaks(schedule);
    const std::vector<std::string> found = problems(schedule);
    return found.empty() ? std::string("none") : found.front();
  };
  CHECK(with([](Schedule&) {}) == "none");
  CHECK(with([](Schedule& s) { s.buffers[2].view_offset = 513; }) ==
        "buffer high reaches beyond weight, which it views");
  CHECK(with([](Schedule& s) { s.buffers[1].view_of = 2; }) ==
        "buffer low views a buffer that is not declared before it");
  CHECK(with([](Schedule& s) { s.buffers[3].pool = 2; }) ==
        "buffer full is in the pool of a stream that does not exist");
  CHECK(with([](Schedule& s) { s.buffers[3].bytes = -1; }) == "buffer full has a negative size");
}

TEST_CASE("a persistent buffer and a view are neither allocated nor freed") {
  CHECK(problems_of_step("forward.alloc alloc weight\nforward.free free low\n") ==
        Sentences{"all/steady: forward.alloc is the alloc of weight, which is persistent",
                  "all/steady: forward.free is the free of low, a view, which owns no memory"});
}

TEST_CASE("a broadcast needs a root among its ranks") {
  CHECK(problems_of_step("forward.tell collective broadcast bf16 512 comm=world stream=comm\n") ==
        Sentences{"all/steady: forward.tell needs a root between 0 and 3, has -1"});
  CHECK(problems_of_step(
            "forward.tell collective broadcast bf16 512 root=4 comm=world stream=comm\n") ==
        Sentences{"all/steady: forward.tell needs a root between 0 and 3, has 4"});
}
