#include "sim/schedule/schedule.hpp"

#include <doctest/doctest.h>

#include <random>
#include <set>

#include "sim/schedule/buffers.hpp"
#include "sim/schedule/builder.hpp"
#include "sim/schedule/op_name.hpp"
#include "tests/unit/schedule/small_schedules.hpp"

using namespace stepcast;

TEST_CASE("op names say phase, verb and unit, and number what repeats") {
  ScheduleBuilder b("names", Mesh{1, 1});
  const StreamIndex compute = b.stream("compute");
  b.role("all", 0, 1);
  b.step("steady");
  b.at(Phase::forward, b.unit("layers.0"));
  b.compute("compute", compute, {}, {}, {});
  b.compute("compute", compute, {}, {}, {});
  b.at(Phase::optimizer);
  b.compute("adamw", compute, {}, {}, {});
  const Schedule schedule = b.take();
  CHECK(op_names(schedule, schedule.roles[0].steps[0]) ==
        std::vector<std::string>{"forward.compute.layers.0", "forward.compute.layers.0#2",
                                 "optimizer.adamw"});
}

TEST_CASE("op names carry the micro-batch only where there are several") {
  ScheduleBuilder b("names", Mesh{1, 1});
  const StreamIndex compute = b.stream("compute");
  b.role("all", 0, 1);
  b.step("steady");
  for (int micro = 0; micro < 2; ++micro) {
    b.at(Phase::forward, b.unit("layers.0"), micro);
    b.compute("compute", compute, {}, {}, {});
  }
  const Schedule schedule = b.take();
  CHECK(op_names(schedule, schedule.roles[0].steps[0]) ==
        std::vector<std::string>{"forward.compute.layers.0.m0", "forward.compute.layers.0.m1"});
}

TEST_CASE("op names are unique whatever the names they are made of") {
  // Verbs and units chosen to collide: "x" twice gives "x#2", which is also the name of a unit.
  const char* const verbs[] = {"a", "a.x", "a#2", "a.x#2", ""};
  const char* const units[] = {"x", "x#2", "x#3", "x.m1", "x.m0", "", "x.m1#2"};
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    ScheduleBuilder b("names", Mesh{1, 1});
    const StreamIndex compute = b.stream("compute");
    b.role("all", 0, 1);
    b.step("steady");
    const int micro_batches = 1 + static_cast<int>(random() % 2);
    for (int i = 0; i < 60; ++i) {
      const bool with_unit = random() % 4 != 0;
      b.at(Phase::forward, with_unit ? b.unit(units[random() % std::size(units)]) : -1,
           static_cast<int>(random()) % micro_batches);
      b.compute(verbs[random() % std::size(verbs)], compute, {}, {}, {});
    }
    const Schedule schedule = b.take();
    const std::vector<std::string> names = op_names(schedule, schedule.roles[0].steps[0]);
    REQUIRE(names.size() == 60);
    CHECK(std::set<std::string>(names.begin(), names.end()).size() == 60);
    for (OpIndex op = 0; op < 60; ++op) {
      CHECK(op_name(schedule, schedule.roles[0].steps[0], op) ==
            names[static_cast<std::size_t>(op)]);
    }
  }
}

TEST_CASE("one op's name is the one it has among all") {
  // Names that keys tell apart, as in every schedule of the strategies.
  ScheduleBuilder b("names", Mesh{1, 1});
  const StreamIndex compute = b.stream("compute");
  b.role("all", 0, 1);
  b.step("steady");
  for (int i = 0; i < 30; ++i) {
    b.at(i % 2 == 0 ? Phase::forward : Phase::backward, b.unit(i % 3 == 0 ? "root" : "layers.0"),
         i / 10);
    b.compute(i % 5 == 0 ? "copy" : "compute", compute, {}, {}, {});
  }
  const Schedule schedule = b.take();
  const StepProgram& step = schedule.roles[0].steps[0];
  const std::vector<std::string> names = op_names(schedule, step);
  CHECK(names.back() == "backward.compute.layers.0.m2#2");
  for (OpIndex op = 0; op < 30; ++op) {
    CHECK(op_name(schedule, step, op) == names[static_cast<std::size_t>(op)]);
  }
}

TEST_CASE("the builder declares by name once and keeps issue order") {
  ScheduleBuilder b("once", Mesh{1, 1});
  CHECK(b.stream("compute") == 0);
  CHECK(b.stream("comm") == 1);
  CHECK(b.stream("compute") == 0);
  CHECK(b.lane("main") == 0);
  CHECK(b.lane("main") == 0);
  CHECK(b.communicator("world", Axis::world) == 0);
  CHECK(b.unit("a") == 0);
  CHECK(b.unit("b") == 1);
  CHECK(b.unit("a") == 0);
  // Buffers are not: two micro-batches have a buffer of one name each.
  CHECK(b.buffer("x", BufferKind::other, Dtype::fp32, 4, 0) == 0);
  CHECK(b.buffer("x", BufferKind::other, Dtype::fp32, 4, 0) == 1);
  b.role("all", 0, 1);
  b.step("steady");
  CHECK(b.host_work("one", 1) == 0);
  CHECK(b.host_work("two", 1) == 1);
  CHECK(b.last() == 1);
}

TEST_CASE("a view beyond its buffer cannot be built") {
  ScheduleBuilder b("views", Mesh{1, 1});
  b.stream("compute");
  const BufferIndex whole = b.buffer("whole", BufferKind::other, Dtype::fp32, 100, 0);
  CHECK_NOTHROW(b.view_of("tail", whole, 60, 40));
  CHECK_THROWS(b.view_of("beyond", whole, 61, 40));
  CHECK_THROWS(b.buffer("negative", BufferKind::other, Dtype::fp32, -1, 0));
}

TEST_CASE("launches of a compute are those of its kernels") {
  const Schedule schedule = everything();
  // gemm 1, unfused attention 3 (forward: two products and a softmax)
  const Op& forward = schedule.roles[0].steps[0].ops[6];
  REQUIRE(forward.kind == OpKind::compute);
  int launches = 0;
  for (const Kernel& kernel : schedule.at_kernels(forward.kernels)) launches += kernel.launches;
  CHECK(forward.launches == launches);
  CHECK(launches == 4);
}

TEST_CASE("ring counting: all-reduce sends twice what reduce-scatter and all-gather send") {
  Op op;
  op.kind = OpKind::collective;
  op.dtype = Dtype::bf16;
  op.elements = 7'000'000'000;
  CHECK(bytes_of(op) == 14'000'000'000);
  const auto sent = [&](CollectiveKind kind, int ranks) {
    op.collective = kind;
    return ring_bytes_sent(op, ranks);
  };
  // E-18: 7e9 in 16 bit on 8 ranks; 2 * 7/8 * 14 and 7/8 * 14
  CHECK(sent(CollectiveKind::all_reduce, 8) == doctest::Approx(24.5e9));
  CHECK(sent(CollectiveKind::all_gather, 8) == doctest::Approx(12.25e9));
  CHECK(sent(CollectiveKind::reduce_scatter, 8) == doctest::Approx(12.25e9));
  // only the root sends: 12.25e9, an eighth of that a rank
  CHECK(sent(CollectiveKind::scatter, 8) == doctest::Approx(1.53125e9));
  CHECK(sent(CollectiveKind::gather, 8) == doctest::Approx(1.53125e9));
  // a chain: seven of the eight send all of it
  CHECK(sent(CollectiveKind::broadcast, 8) == doctest::Approx(12.25e9));
  for (const int ranks : {1, 2, 3, 6, 20, 1024}) {
    CAPTURE(ranks);
    CHECK(sent(CollectiveKind::all_reduce, ranks) ==
          doctest::Approx(sent(CollectiveKind::all_gather, ranks) +
                          sent(CollectiveKind::reduce_scatter, ranks)));
  }
  for (const CollectiveKind kind :
       {CollectiveKind::all_reduce, CollectiveKind::all_gather, CollectiveKind::reduce_scatter,
        CollectiveKind::broadcast, CollectiveKind::reduce, CollectiveKind::scatter,
        CollectiveKind::gather}) {
    CHECK(sent(kind, 1) == 0.0);  // a rank alone sends nothing
  }
}

TEST_CASE("an op of another program is found by its key and its turn among equals") {
  ScheduleBuilder b("steps", Mesh{1, 1});
  const StreamIndex compute = b.stream("compute");
  b.role("all", 0, 1);
  b.step("first");
  b.at(Phase::backward, b.unit("a"));
  b.compute("go", compute, {}, {}, {});
  b.step("steady");
  b.at(Phase::backward, b.unit("b"));
  b.compute("go", compute, {}, {}, {});
  b.at(Phase::backward, b.unit("a"));
  b.compute("go", compute, {}, {}, {});
  b.compute("go", compute, {}, {}, {});
  const Schedule schedule = b.take();
  const auto& steps = schedule.roles[0].steps;
  const SameOp back(steps[1], steps[0]);
  CHECK(back(0) == -1);  // unit b is not there
  CHECK(back(1) == 0);
  CHECK(back(2) == -1);  // a second one is not there
  const SameOp forth(steps[0], steps[1]);
  CHECK(forth(0) == 1);
}

TEST_CASE("a mesh knows the size of each axis") {
  const Mesh mesh{4, 8};
  CHECK(mesh.world_size() == 32);
  CHECK(mesh.size(Axis::world) == 32);
  CHECK(mesh.size(Axis::shard) == 8);
  CHECK(mesh.size(Axis::replicate) == 4);
}

TEST_CASE("a view of a view is owned by the buffer at the end of the chain") {
  ScheduleBuilder b("views", Mesh{1, 1});
  b.stream("compute");
  const BufferIndex whole = b.buffer("whole", BufferKind::other, Dtype::fp32, 100, 0);
  const BufferIndex half = b.view_of("half", whole, 50, 50);
  const BufferIndex tail = b.view_of("tail", half, 40, 10);
  const Schedule schedule = b.take();
  CHECK(owner_of(schedule, tail) == whole);
  CHECK(owner_of(schedule, half) == whole);
  CHECK(owner_of(schedule, whole) == whole);
}
