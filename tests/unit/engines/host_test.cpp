// The host: what issuing costs, what blocks a lane, lanes that share a lock.

#include "sim/engines/engine.hpp"
#include "tests/unit/engines/engines_under_test.hpp"
#include "tests/unit/engines/small_program.hpp"

namespace stepcast::testing {
namespace {

constexpr Seconds us = 1e-6;

TEST_CASE("Launches of 10 us and kernels of 1 us are host-bound: a kernel every 10 us") {
  SmallProgram p;
  for (int i = 0; i < 5; ++i) {
    p.compute("k" + std::to_string(i), "compute", {.solo = 1 * us, .host = 10 * us});
  }
  in_both_engines([&](Engine& engine) {
    const Timeline timeline = p.run(engine);
    for (int i = 0; i < 5; ++i) {
      const Span kernel = p.at(timeline, "k" + std::to_string(i));
      CHECK(kernel.start == doctest::Approx(10 * us * (i + 1)));
      CHECK(kernel.end == doctest::Approx(10 * us * (i + 1) + 1 * us));
      CHECK(kernel.bound == Bound::host);
    }
    CHECK(timeline.period() == doctest::Approx(51 * us));
  });
}

TEST_CASE("Launches of 1 us and kernels of 10 us hide the host behind the first kernel") {
  SmallProgram p;
  for (int i = 0; i < 5; ++i) {
    p.compute("k" + std::to_string(i), "compute", {.solo = 10 * us, .host = 1 * us});
  }
  in_both_engines([&](Engine& engine) {
    const Timeline timeline = p.run(engine);
    CHECK(timeline.period() == doctest::Approx(51 * us));
    CHECK(p.at(timeline, "k4").bound == Bound::stream);
    CHECK(p.cause(timeline, p.at(timeline, "k4")) == "k3");
    CHECK(p.at(timeline, "k4").issued == doctest::Approx(5 * us));
  });
}

TEST_CASE("An op of four kernels starts after its first launch and ends a kernel after its last") {
  // 4 launches of 1: first at 1, last at 4; four kernels of 0.5: the last runs 4 to 4.5.
  SmallProgram p;
  p.compute("few", "compute", {.solo = 2, .host = 4, .launches = 4});
  p.compute("next", "compute", {.solo = 1});
  in_both_engines([&](Engine& engine) {
    const Timeline timeline = p.run(engine);
    CHECK(p.at(timeline, "few").start == 1);
    CHECK(p.at(timeline, "few").end == 4.5);
    CHECK(p.at(timeline, "next").start == 4.5);
  });
}

TEST_CASE("A host wait holds back what the lane issues after it, for an op, a stream, the device") {
  // a: 0-3 on x, b: 0-5 on y. The next op is on z, which is free.
  const auto program = [](auto&& wait) {
    SmallProgram p;
    const OpIndex a = p.compute("a", "x", {.solo = 3});
    p.compute("b", "y", {.solo = 5});
    wait(p, a);
    p.compute("next", "z", {.solo = 1});
    return p;
  };
  auto op = program([](SmallProgram& p, OpIndex a) { p.host_wait(a); });
  auto stream = program([](SmallProgram& p, OpIndex) { p.host_wait_stream("x"); });
  auto device = program([](SmallProgram& p, OpIndex) { p.host_wait_device(); });
  in_both_engines([&](Engine& engine) {
    for (auto* p : {&op, &stream}) {
      const Timeline timeline = p->run(engine);
      const Span blocked = p->at(timeline, "host_wait");
      CHECK(blocked.start == 0);
      CHECK(blocked.end == 3);
      CHECK(blocked.bound == Bound::wait);
      CHECK(p->cause(timeline, blocked) == "a");
      CHECK(p->at(timeline, "next").start == 3);
      CHECK(p->at(timeline, "next").bound == Bound::host);
    }
    const Timeline timeline = device.run(engine);
    CHECK(device.at(timeline, "next").start == 5);
    CHECK(device.cause(timeline, device.at(timeline, "host_wait")) == "b");
  });
}

TEST_CASE("A stream that only waits is passed when its wait is met") {
  // Stream z waits for a (0-3); synchronising with z is synchronising with a.
  SmallProgram p;
  const OpIndex a = p.compute("a", "x", {.solo = 3});
  p.wait("z", a);
  p.host_wait_stream("z");
  in_both_engines([&](Engine& engine) {
    const Timeline timeline = p.run(engine);
    CHECK(p.at(timeline, "host_wait").end == 3);
    CHECK(p.cause(timeline, p.at(timeline, "host_wait")) == "a");
  });
}

TEST_CASE("Host work occupies its lane and only its lane") {
  SmallProgram p;
  p.lane("main");
  p.host_work("tokenise", 7);
  p.compute("a", "x", {.solo = 1});
  p.lane("autograd");
  p.compute("b", "y", {.solo = 1});
  in_both_engines([&](Engine& engine) {
    const Timeline timeline = p.run(engine);
    CHECK(p.at(timeline, "tokenise").end == 7);
    CHECK(p.at(timeline, "a").start == 7);
    CHECK(p.at(timeline, "b").start == 0);
  });
}

TEST_CASE("Lanes with one lock take turns, first come first served") {
  // Both ask at 0; main is told first. main: 0-2 and again (asks at 2); loader asked at 0, so it
  // goes before: 2-5; then main 5-7. Its third op asks at 7 like nobody else: 7-9.
  SmallProgram p;
  p.lane("main", "GIL");
  for (const char* name : {"m0", "m1", "m2"}) p.host_work(name, 2);
  p.lane("loader", "GIL");
  p.host_work("l0", 3);
  in_both_engines([&](Engine& engine) {
    const Timeline timeline = p.run(engine);
    CHECK(p.at(timeline, "m0").end == 2);
    CHECK(p.at(timeline, "l0").start == 2);
    CHECK(p.at(timeline, "l0").end == 5);
    CHECK(p.at(timeline, "m1").start == 5);
    CHECK(p.at(timeline, "m2").end == 9);
  });
}

TEST_CASE("A lane that blocks on the device does not hold its lock meanwhile") {
  // main waits for a kernel of 10; the loader works 0-4 and 4-8 all the same.
  SmallProgram p;
  p.lane("main", "GIL");
  const OpIndex kernel = p.compute("kernel", "x", {.solo = 10});
  p.host_wait(kernel);
  p.host_work("after", 1);
  p.lane("loader", "GIL");
  p.host_work("l0", 4);
  p.host_work("l1", 4);
  in_both_engines([&](Engine& engine) {
    const Timeline timeline = p.run(engine);
    CHECK(p.at(timeline, "l1").end == 8);
    CHECK(p.at(timeline, "after").end == 11);
  });
}

TEST_CASE("A file op occupies its lane, two lanes that read share the storage") {
  SmallProgram p;
  p.lane("loader0");
  p.storage("read0", {.solo = 1, .demands = {{"storage", 1}}});
  p.compute("copy0", "h2d", {.solo = 1});
  p.lane("loader1");
  p.storage("read1", {.solo = 1, .demands = {{"storage", 1}}});
  in_both_engines([&](Engine& engine) {
    const Timeline timeline = p.run(engine);
    const Seconds read = engine.name() == "fluid" ? 2 : 1;  // each gets half, or has it alone
    CHECK(near(p.at(timeline, "read0").end, read));
    CHECK(near(p.at(timeline, "read1").end, read));
    CHECK(near(p.at(timeline, "copy0").start, read));
  });
}

}  // namespace
}  // namespace stepcast::testing
