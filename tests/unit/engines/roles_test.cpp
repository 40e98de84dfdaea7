// Several roles: collectives that they enter together, and what a deadlock says.

#include <string>

#include "sim/engines/engine.hpp"
#include "tests/unit/engines/engines_under_test.hpp"
#include "tests/unit/engines/small_program.hpp"

namespace stepcast::testing {
namespace {

// The message of the Deadlock that both engines must throw, the same from both.
std::string deadlock_of(SmallProgram& program, const RunOptions& options = {.programs = {0}}) {
  std::string message;
  in_both_engines([&](Engine& engine) {
    std::string got;
    try {
      program.run(engine, options);
    } catch (const Deadlock& error) {
      got = error.what();
    }
    CHECK(!got.empty());
    CHECK((message.empty() || message == got));
    message = got;
  });
  return message;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("A collective starts when the last role comes, for all roles") {
  // a computes 0-3, b 0-5; both then reduce for 2: 5-7.
  SmallProgram p;
  for (const char* role : {"a", "b"}) {
    p.role(role, role[0] - 'a', 1);
    p.step("steady");
    const OpIndex backward = p.compute("backward", "compute", {.solo = role[0] == 'a' ? 3.0 : 5.0});
    p.wait("nccl", backward);
    p.all_reduce("reduce", "world", "nccl", {.solo = 2});
  }
  in_both_engines([&](Engine& engine) {
    const Timeline timeline = p.run(engine);
    for (const int role : {0, 1}) {
      CHECK(p.at(timeline, "reduce", role).start == 5);
      CHECK(p.at(timeline, "reduce", role).end == 7);
    }
    CHECK(p.at(timeline, "reduce", 0).bound == Bound::peer);
    CHECK(p.at(timeline, "reduce", 1).bound == Bound::wait);
    CHECK(p.cause(timeline, p.at(timeline, "reduce", 1)) == "backward");
  });
}

TEST_CASE(
    "A collective of roles with different costs goes at the slower pace, segment by segment") {
  // Segments 1 + 4 and 3 + 1: max(1,3) + max(4,1) = 7.
  SmallProgram p;
  p.role("a", 0, 1);
  p.step("steady");
  p.all_reduce("reduce", "world", "nccl", {.parts = {{1, {}}, {4, {}}}});
  p.role("b", 1, 1);
  p.step("steady");
  p.all_reduce("reduce", "world", "nccl", {.parts = {{3, {}}, {1, {}}}});
  in_both_engines([&](Engine& engine) {
    const Timeline timeline = p.run(engine);
    CHECK(p.at(timeline, "reduce", 0).end == 7);
    CHECK(p.at(timeline, "reduce", 1).end == 7);
  });
}

TEST_CASE("A host goes on past a collective whose peers have not come") {
  // a issues x then y, b issues y then x, on different streams and communicators: no deadlock.
  // b computes 4 before x; y is entered at 0 by both.
  SmallProgram p;
  p.role("a", 0, 1);
  p.step("steady");
  p.all_reduce("x", "one", "s1", {.solo = 1});
  p.all_reduce("y", "two", "s2", {.solo = 1});
  p.role("b", 1, 1);
  p.step("steady");
  p.all_reduce("y", "two", "s2", {.solo = 1});
  p.compute("late", "s1", {.solo = 4});
  p.all_reduce("x", "one", "s1", {.solo = 1});
  in_both_engines([&](Engine& engine) {
    const Timeline timeline = p.run(engine);
    CHECK(p.at(timeline, "y", 0).end == 1);
    CHECK(p.at(timeline, "x", 0).start == 4);
    CHECK(p.at(timeline, "x", 0).bound == Bound::peer);
  });
}

TEST_CASE(
    "Roles in different shard groups do not wait for each other, in the replicate axis they do") {
  // 2 x 2: ranks 0,1 are one shard group and role a; 2,3 the other and role b, which is slow.
  SmallProgram p(Mesh{2, 2});
  for (const char* role : {"a", "b"}) {
    p.role(role, role[0] == 'a' ? 0 : 2, 2);
    p.step("steady");
    p.compute("work", "compute", {.solo = role[0] == 'a' ? 1.0 : 9.0});
    p.all_reduce("shard_reduce", "shard", "compute", {.solo = 1}, 1, Axis::shard);
    p.all_reduce("replicate_reduce", "replicate", "compute", {.solo = 1}, 1, Axis::replicate);
  }
  in_both_engines([&](Engine& engine) {
    const Timeline timeline = p.run(engine);
    CHECK(p.at(timeline, "shard_reduce", 0).end == 2);
    CHECK(p.at(timeline, "shard_reduce", 1).end == 10);
    CHECK(p.at(timeline, "replicate_reduce", 0).start == 10);
  });
}

TEST_CASE("A host that waits for a collective lets the other role come to it") {
  // a waits on the host for the reduce before it issues its next kernel; b enters at 6.
  SmallProgram p;
  p.role("a", 0, 1);
  p.step("steady");
  p.host_wait(p.all_reduce("reduce", "world", "nccl", {.solo = 1}));
  p.compute("after", "compute", {.solo = 1});
  p.role("b", 1, 1);
  p.step("steady");
  p.host_work("save", 6);
  p.all_reduce("reduce", "world", "nccl", {.solo = 1});
  in_both_engines([&](Engine& engine) {
    const Timeline timeline = p.run(engine);
    CHECK(p.at(timeline, "after", 0).start == 7);
    CHECK(p.at(timeline, "after", 0).bound == Bound::host);
  });
}

TEST_CASE(
    "Two roles that cross their collectives deadlock, the message names op, unit and who is "
    "missing") {
  SmallProgram p;
  p.role("gpu0", 0, 1);
  p.step("steady");
  p.builder().at(Phase::backward, p.builder().unit("b0"));
  p.all_reduce("reduce", "one", "nccl", {.solo = 1});
  p.builder().at(Phase::backward, p.builder().unit("b1"));
  p.all_reduce("reduce", "two", "nccl", {.solo = 1});
  p.role("rest", 1, 1);
  p.step("steady");
  p.builder().at(Phase::backward, p.builder().unit("b1"));
  p.all_reduce("reduce", "two", "nccl", {.solo = 1});
  p.builder().at(Phase::backward, p.builder().unit("b0"));
  p.all_reduce("reduce", "one", "nccl", {.solo = 1});
  CHECK(deadlock_of(p) ==
        "no op can go on: role \"gpu0\" is at all_reduce of unit \"b0\" on communicator \"one\" "
        "(step 0 \"steady\", backward.reduce.b0), which role \"rest\" has not entered; role "
        "\"rest\" is at all_reduce of unit \"b1\" on communicator \"two\" (step 0 \"steady\", "
        "backward.reduce.b1), which role \"gpu0\" has not entered");
}

TEST_CASE("A role that never comes to a collective is named as missing and as ended") {
  SmallProgram p;
  p.role("a", 0, 1);
  p.step("steady");
  p.builder().at(Phase::backward, p.builder().unit("layers.3"));
  p.all_reduce("reduce", "world", "nccl", {.solo = 1});
  p.role("b", 1, 1);
  p.step("steady");
  p.compute("work", "compute", {.solo = 1});
  const std::string message = deadlock_of(p);
  CHECK(contains(message, "unit \"layers.3\""));
  CHECK(contains(message, "role \"b\" has not entered"));
  CHECK(contains(message, "role \"b\" has ended"));
}

TEST_CASE("A host that blocks before it enters is named with what it waits at") {
  // b waits on the host for its x, which a enters only after y, which b never reaches.
  SmallProgram p;
  p.role("a", 0, 1);
  p.step("steady");
  p.all_reduce("y", "two", "nccl", {.solo = 1});
  p.all_reduce("x", "one", "nccl", {.solo = 1});
  p.role("b", 1, 1);
  p.step("steady");
  p.host_wait(p.all_reduce("x", "one", "nccl", {.solo = 1}));
  p.all_reduce("y", "two", "nccl", {.solo = 1});
  const std::string message = deadlock_of(p);
  CHECK(contains(message, "role \"a\" is at all_reduce on communicator \"two\""));
  CHECK(contains(message, "role \"b\" is at all_reduce on communicator \"one\""));
}

TEST_CASE("Roles whose collectives differ in size do not start them") {
  SmallProgram p;
  p.role("a", 0, 1);
  p.step("steady");
  p.all_reduce("reduce", "world", "nccl", {.solo = 1}, 100);
  p.role("b", 1, 1);
  p.step("steady");
  p.all_reduce("reduce", "world", "nccl", {.solo = 1}, 99);
  const std::string message = deadlock_of(p);
  CHECK(contains(message, "role \"a\""));
  CHECK(contains(message, "100 fp32 elements"));
  CHECK(contains(message, "99 fp32 elements"));
}

TEST_CASE("After a deadlock the engine runs the next schedule as if nothing had happened") {
  SmallProgram stuck;
  stuck.role("a", 0, 1);
  stuck.step("steady");
  stuck.compute("running", "compute", {.solo = 5});
  stuck.all_reduce("reduce", "world", "nccl", {.solo = 1});
  stuck.role("b", 1, 1);
  stuck.step("steady");
  SmallProgram sound;
  sound.compute("work", "compute", {.solo = 1});
  in_both_engines([&](Engine& engine) {
    CHECK_THROWS_AS(stuck.run(engine), Deadlock);
    CHECK(sound.run(engine).period() == 1);
  });
}

}  // namespace
}  // namespace stepcast::testing
