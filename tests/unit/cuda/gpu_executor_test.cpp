// What the GPU executor keeps, and how a run that breaks ends: on the fake.

#include "runtime/cuda/gpu_executor.hpp"

#include <doctest/doctest.h>

#include <set>
#include <thread>

#include "base/error.hpp"
#include "runtime/cuda/frame.hpp"
#include "runtime/cuda/gpu_replay.hpp"
#include "runtime/cuda/gpu_trainer.hpp"
#include "sim/schedule/builder.hpp"
#include "tests/unit/cuda/fake_gpu.hpp"
#include "tests/unit/runtime/training.hpp"

namespace stepcast::runtime {
namespace {

using testing::FakeCluster;
using testing::FakeFaults;

const std::vector<View> none;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

Durations no_time(const Schedule& s) {
  Durations all;
  for (const Role& role : s.roles) {
    all.emplace_back();
    for (const StepProgram& program : role.steps) all.back().emplace_back(program.ops.size());
  }
  return all;
}

// Buckets that are reduced while the next one is computed, and a wait for all of them.
Schedule buckets(int ranks, int count, bool hsdp = false) {
  ScheduleBuilder b("buckets", hsdp ? Mesh{2, ranks / 2} : Mesh{ranks, 1});
  const StreamIndex compute = b.stream("compute");
  const StreamIndex nccl = b.stream("nccl", -1);
  const CommIndex world = b.communicator("world", Axis::world);
  b.lane("main");
  const BufferIndex x = b.persistent("x", BufferKind::bucket, Dtype::fp32, 64);
  const std::vector<View> view{b.whole(x)};
  b.role("all", 0, ranks);
  b.step("steady");
  OpIndex last = -1;
  for (int i = 0; i < count; ++i) {
    b.at(Phase::backward, b.unit("bucket" + std::to_string(i)));
    const OpIndex made = b.compute("compute", compute, {}, none, view);
    b.stream_wait(nccl, made);
    last = b.collective("all_reduce", CollectiveKind::all_reduce, world, nccl, Dtype::fp32, 16,
                        Reduction::sum, view, view);
  }
  b.stream_wait(compute, last);
  b.host_wait_device();
  return b.take();
}

GpuExecution run(const Schedule& s, FakeCluster& cluster, GpuExecuteOptions options = {}) {
  const GpuTables tables = cluster.process(0);
  GpuReplay work(s, no_time(s), tables);
  return execute_on_gpus(s, work, tables, options);
}

std::string failure(const Schedule& s, FakeCluster& cluster, Seconds watchdog = 1,
                    Seconds patience = 60) {
  GpuExecuteOptions options;
  options.watchdog = watchdog;
  options.patience = patience;
  try {
    run(s, cluster, options);
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("the timeline of every op, in the order that the schedule promises") {
  FakeCluster cluster({2});
  const Schedule s = buckets(2, 3);
  GpuExecuteOptions options;
  options.steps = 2;
  const GpuExecution e = run(s, cluster, options);
  const Timeline& t = e.timeline;
  CHECK(t.engine == "nccl");
  REQUIRE(t.steps.size() == 2);
  // A step: 3 computations, 3 collectives, 1 host wait.
  REQUIRE(t.spans.size() == 14);
  std::map<std::pair<int, OpIndex>, Span> by_place;
  for (const Span& span : t.spans) by_place[{span.step, span.op}] = span;
  const auto& ops = s.roles[0].steps[0].ops;
  Seconds nccl_end = 0;
  for (int step = 0; step < 2; ++step) {
    Seconds made = 0;
    for (std::size_t i = 0; i < ops.size(); ++i) {
      if (ops[i].kind == OpKind::compute) made = by_place[{step, OpIndex(i)}].end;
      if (ops[i].kind != OpKind::collective) continue;
      const Span& span = by_place[{step, OpIndex(i)}];
      CHECK(span.start >= made - 1e-12);      // its wait
      CHECK(span.start >= nccl_end - 1e-12);  // its stream and communicator
      nccl_end = span.end;
    }
  }
  CHECK(e.gpus.size() == 2);
  CHECK(e.memory[1].peak == 64);
  CHECK(cluster.alive() == 0);
  CHECK(cluster.aborted() == 0);
}

TEST_CASE("streams have the schedule's priorities, as far as CUDA's reach, ranges its op names") {
  FakeCluster cluster({1});
  ScheduleBuilder b("priorities", Mesh{1, 1});
  const StreamIndex usual = b.stream("compute");
  b.stream("nccl", -1);
  b.stream("most", -20);
  b.lane("main");
  b.role("all", 0, 1);
  b.step("steady");
  b.at(Phase::forward, b.unit("layers.0"));
  b.compute("compute", usual, {}, none, none);
  run(b.take(), cluster);
  CHECK(cluster.priorities() == std::multiset<int>{-5, -1, 0});
  CHECK(cluster.ranges() == std::vector<std::string>{"forward.compute.layers.0"});
}

TEST_CASE(
    "a communicator an axis, split from that of all ranks, of which the world's is the first") {
  FakeCluster cluster({4});
  ScheduleBuilder b("axes", Mesh{2, 2});
  const StreamIndex nccl = b.stream("nccl");
  const CommIndex shard = b.communicator("shard", Axis::shard);
  const CommIndex replicate = b.communicator("replicate", Axis::replicate);
  const CommIndex world = b.communicator("world", Axis::world);
  b.lane("main");
  const BufferIndex x = b.persistent("x", BufferKind::bucket, Dtype::fp32, 16);
  const std::vector<View> view{b.whole(x)};
  b.role("all", 0, 4);
  b.step("steady");
  for (const CommIndex comm : {shard, replicate, world}) {
    b.collective("all_reduce", CollectiveKind::all_reduce, comm, nccl, Dtype::fp32, 4,
                 Reduction::sum, view, view);
  }
  run(b.take(), cluster);
  CHECK(cluster.comm_names() ==
        std::set<std::string>{"stepcast.world", "stepcast.shard", "stepcast.replicate"});
  CHECK(cluster.alive() == 0);
}

TEST_CASE("the host never runs further ahead than CUDA's queue is deep") {
  FakeCluster cluster({2});
  run(buckets(2, 400), cluster);
  // 256 ops, each with an event before, one behind and a wait.
  CHECK(cluster.largest_backlog() <= 256 * 4);
  CHECK(cluster.largest_backlog() > 100);
}

TEST_CASE("processes of nodes with uneven GPU counts meet over TCP and train as one rank does") {
  testing::Case c;
  c.strategy.kind = StrategyKind::hsdp;
  c.mesh = {3, 1};
  const Schedule s = widened(build_schedule(testing::training_step(c)));
  FakeCluster cluster({2, 1});
  const std::vector<std::pair<int, int>> places{{0, 0}, {0, 1}, {1, 0}};  // node, local rank
  int port = 0;
  { port = Listener(0).port(); }
  std::vector<double> differences(3, 1);
  std::vector<std::string> gpus;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      const auto& [node, local] = places[static_cast<std::size_t>(rank)];
      const GpuTables tables = cluster.process(node);
      GpuTrainer work(s, testing::small_shape(), testing::training_data(c), tables);
      work.compare_with(testing::one_rank(c).parameters);
      GpuExecuteOptions options;
      options.steps = work.executed_steps();
      options.job = Job{rank, 3, local, "127.0.0.1", port, "torchrun"};
      const GpuExecution e = execute_on_gpus(s, work, tables, options);
      differences[static_cast<std::size_t>(rank)] = work.verdict(e).difference;
      if (rank == 2) gpus = e.gpus;
      CHECK(!e.timeline.spans.empty());  // of rank 0, in every process
    });
  }
  testing::one_rank(c);
  for (std::thread& thread : threads) thread.join();
  for (const double difference : differences) CHECK(difference <= 1e-12);
  REQUIRE(gpus.size() == 3);
  CHECK(contains(gpus[1], "GPU 1"));
  CHECK(contains(gpus[2], "GPU 0"));
  CHECK(cluster.alive() == 0);
}

// ---- What breaks --------------------------------------------------------------------------------

FakeCluster& faulty(FakeCluster& cluster, int rank, int call, FakeFaults::Kind kind) {
  cluster.faults = {rank, call, kind};
  return cluster;
}

TEST_CASE("a rank that never enters a collective ends the run on all, by name") {
  FakeCluster cluster({3});
  const std::string said =
      failure(buckets(3, 3), faulty(cluster, 1, 2, FakeFaults::Kind::never_enters));
  CAPTURE(said);
  // Its second collective is on its stream, behind an event that is done: NCCL does not come.
  CHECK(contains(said,
                 "backward.all_reduce.bucket1 (step 0) on communicator world is entered by "
                 "all of ranks 0, 1, 2 and does not end"));
  CHECK(cluster.aborted() == 3);
  CHECK(cluster.alive() == 0);
}

TEST_CASE("a rank that is stopped is missed, with where it stands") {
  FakeCluster cluster({3});
  faulty(cluster, 2, 2, FakeFaults::Kind::stuck);
  std::string said;
  std::thread others([&] { said = failure(buckets(3, 3), cluster); });
  // The stopped process goes on when the others have long heard.
  while (cluster.aborted() < 2) std::this_thread::yield();
  cluster.resume();
  others.join();
  CAPTURE(said);
  CHECK(contains(said,
                 "backward.all_reduce.bucket1 (step 0) on communicator world waits for rank "
                 "2: ranks 0, 1 entered; rank 2 stands at"));
  CHECK(cluster.aborted() == 3);
  CHECK(cluster.alive() == 0);
}

TEST_CASE("a GPU that breaks on one rank ends all, and the one says what broke") {
  FakeCluster cluster({3});
  const std::string said =
      failure(buckets(3, 3), faulty(cluster, 0, 2, FakeFaults::Kind::throws), 30);
  CHECK(said == "ncclAllReduce: unhandled cuda error");
  CHECK(cluster.aborted() == 3);
  CHECK(cluster.alive() == 0);
}

TEST_CASE("an error that NCCL reports later ends all, with its words and the communicator's name") {
  FakeCluster cluster({2});
  const std::string said =
      failure(buckets(2, 3), faulty(cluster, 1, 3, FakeFaults::Kind::async_error), 30);
  CHECK(said == "communicator world: ncclRemoteError: a peer is lost");
  CHECK(cluster.aborted() == 2);
}

TEST_CASE("a communicator that is never ready is said, with where NCCL can be asked") {
  FakeCluster cluster({2});
  const std::string said =
      failure(buckets(2, 1), faulty(cluster, 0, 1, FakeFaults::Kind::never_joins), 30, 0.5);
  CAPTURE(said);
  const bool waits = contains(said, "making the communicator of all ranks: NCCL is not through");
  const bool missed = contains(said, "did not come to");
  CHECK((waits || missed));
  CHECK(cluster.alive() == 0);
}

// Two roles; the second leaves the collective out, or makes it another one.
Schedule two_roles(bool second_enters, std::int64_t second_elements) {
  ScheduleBuilder b("two", Mesh{2, 1});
  const StreamIndex nccl = b.stream("nccl");
  const CommIndex world = b.communicator("world", Axis::world);
  b.lane("main");
  const BufferIndex x = b.persistent("x", BufferKind::bucket, Dtype::fp32, 16);
  for (int role = 0; role < 2; ++role) {
    b.role(role == 0 ? "first" : "second", role, 1);
    b.step("steady");
    b.at(Phase::backward, b.unit("bucket0"));
    if (role == 0 || second_enters) {
      const std::int64_t elements = role == 0 ? 4 : second_elements;
      const std::vector<View> view{View{x, 0, 4 * elements}};
      b.collective("all_reduce", CollectiveKind::all_reduce, world, nccl, Dtype::fp32, elements,
                   Reduction::sum, view, view);
    }
    b.host_wait_device();
  }
  return b.take();
}

TEST_CASE("ranks that leave out a collective, or enter another, are told") {
  {
    FakeCluster cluster({2});
    CHECK(failure(two_roles(false, 4), cluster) ==
          "backward.all_reduce.bucket0 (step 0) on communicator world waits for rank 1: rank 0 "
          "entered; rank 1 has ended");
  }
  FakeCluster cluster({2});
  CHECK(contains(failure(two_roles(true, 2), cluster),
                 "ranks disagree on communicator world: rank 0 entered all_reduce of 4 fp32 "
                 "elements (backward.all_reduce.bucket0 (step 0)), rank 1 all_reduce of 2"));
}

TEST_CASE("what does not fit on a GPU is said") {
  FakeCluster cluster({2});
  cluster.memory_of_gpu = 100;
  CHECK(contains(failure(buckets(2, 1), cluster, 30), "out of memory"));
}

TEST_CASE("two ranks on one GPU are told before NCCL refuses them") {
  FakeCluster cluster({2});
  cluster.same_bus_ids = true;
  const std::string said = failure(buckets(2, 1), cluster, 30);
  CHECK(contains(said, "ranks 0 and 1 are both on "));
  CHECK(contains(said, "NCCL_HOSTID"));
}

TEST_CASE("ranks and GPUs, or ranks and processes, that do not fit together are refused") {
  FakeCluster cluster({2});
  CHECK(contains(failure(buckets(4, 1), cluster), "the scenario has 4 ranks, this machine 2 GPUs"));
  const GpuTables tables = cluster.process(0);
  const Schedule s = buckets(2, 1);
  GpuReplay work(s, no_time(s), tables);
  GpuExecuteOptions options;
  options.job = Job{0, 3, 0, "127.0.0.1", 0, "torchrun"};
  CHECK_THROWS_WITH_AS(execute_on_gpus(s, work, tables, options),
                       "environment: WORLD_SIZE: torchrun has started 3 processes; accepted: 2, "
                       "the ranks of the scenario",
                       InputError);
  options.job = Job{1, 2, 5, "127.0.0.1", 0, "torchrun"};
  CHECK_THROWS_AS(execute_on_gpus(s, work, tables, options), InputError);
  GpuTables without = tables;
  without.collectives = nullptr;
  without.no_collectives = "no NCCL: libnccl.so.2 cannot be opened";
  CHECK_THROWS_WITH_AS(execute_on_gpus(s, work, without), "no NCCL: libnccl.so.2 cannot be opened",
                       GpuError);
}

}  // namespace
}  // namespace stepcast::runtime
