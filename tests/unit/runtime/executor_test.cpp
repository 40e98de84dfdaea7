// What the executor keeps and what it leaves open: orders, waits, memory, hangs.

#include "runtime/cpu/executor.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <mutex>
#include <set>

#include "runtime/numbers.hpp"
#include "runtime/replay.hpp"
#include "sim/schedule/builder.hpp"

namespace stepcast::runtime {
namespace {

// Ops do what the test says; collectives work on their first views.
class Script : public Work {
 public:
  std::function<void(const OpContext&)> body = [](const OpContext&) {};
  std::vector<std::string> log(int rank) const {
    std::vector<std::string> verbs;
    for (const auto& [r, verb] : log_) {
      if (r == rank) verbs.push_back(verb);
    }
    return verbs;
  }

  bool has_memory() const override { return true; }
  void start(int, std::byte* const*) override {}
  void end(int, std::byte* const*) override {}
  void run(const OpContext& c) override {
    note(c);
    body(c);
  }
  Operands operands(const OpContext& c) override {
    return {c.memory[0], c.memory[c.op->reads.count]};
  }
  void finished(const OpContext& c) override { note(c); }
  Seconds duration(const OpContext&) const override { return 0; }
  Seconds host_duration(const OpContext&) const override { return 0; }

 private:
  void note(const OpContext& c) {
    const std::lock_guard<std::mutex> lock(mutex_);
    log_.emplace_back(c.rank, c.op->verb.str());
  }
  std::mutex mutex_;
  std::vector<std::pair<int, std::string>> log_;
};

const std::vector<View> none;

std::string failure(const Schedule& schedule, bool threads) {
  Script work;
  ExecuteOptions options;
  options.threads = threads;
  options.watchdog = 0.05;
  try {
    execute(schedule, work, options);
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Two roles of one rank; the second leaves the collective out, or makes it another one.
Schedule two_roles(bool second_enters, std::int64_t second_elements = 4) {
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
      const View view{x, 0, 4 * (role == 0 ? 4 : second_elements)};
      b.collective("all_reduce", CollectiveKind::all_reduce, world, nccl, Dtype::fp32,
                   role == 0 ? 4 : second_elements, Reduction::sum, std::vector<View>{view},
                   std::vector<View>{view});
    }
    b.host_wait_device();
  }
  return b.take();
}

TEST_CASE("a collective that a rank never enters ends the run and is named, with who is missing") {
  for (const bool threads : {true, false}) {
    const std::string said = failure(two_roles(false), threads);
    CAPTURE(said);
    CHECK(contains(said, "backward.all_reduce.bucket0"));
    CHECK(contains(said, "communicator world waits for rank 1"));
    CHECK(contains(said, "rank 0 entered"));
    CHECK(contains(said, "rank 1 has ended"));
  }
}

TEST_CASE("ranks that enter different collectives are told which") {
  for (const bool threads : {true, false}) {
    const std::string said = failure(two_roles(true, 2), threads);
    CAPTURE(said);
    CHECK(contains(said, "ranks disagree on communicator world"));
    CHECK(contains(said, "all_reduce of 4 fp32 elements"));
    CHECK(contains(said, "all_reduce of 2 fp32 elements"));
  }
  CHECK(failure(two_roles(true), true).empty());
}

// `side` reads a buffer of the compute stream's pool that the host frees meanwhile.
Schedule freed_while_read(bool record_stream) {
  ScheduleBuilder b("free", Mesh{1, 1});
  const StreamIndex compute = b.stream("compute");
  const StreamIndex side = b.stream("side");
  b.lane("main");
  b.role("all", 0, 1);
  b.step("steady");
  const BufferIndex x = b.buffer("x", BufferKind::workspace, Dtype::fp32, 4, compute);
  b.alloc(x);
  const std::vector<View> view{b.whole(x)};
  const OpIndex filled = b.compute("fill", compute, {}, none, view);
  b.stream_wait(side, filled);
  b.compute("read", side, {}, view, none);
  if (record_stream) {
    b.free_after_streams(x, std::vector<StreamIndex>{side});
  } else {
    b.free(x);
  }
  b.compute("next", compute, {}, none, none);  // might be given the memory
  return b.take();
}

// In how many of 40 interleavings the reader saw what was filled in.
int reads_right(const Schedule& schedule) {
  int right = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Script work;
    work.body = [&](const OpContext& c) {
      if (c.op->verb == Name("fill")) store<float>(c.memory[0], 0, 7);
      if (c.op->verb == Name("read") && load<float>(c.memory[0], 0) == 7) ++right;
    };
    ExecuteOptions options;
    options.threads = false;
    options.seed = seed;
    execute(schedule, work, options);
  }
  return right;
}

TEST_CASE("freed memory is poisoned as soon as its pool has passed, with record_stream later") {
  CHECK(reads_right(freed_while_read(true)) == 40);
  const int right = reads_right(freed_while_read(false));  // a race: both happen
  CHECK(right > 0);
  CHECK(right < 40);
}

TEST_CASE("a communicator takes its collectives in issue order, whatever their stream") {
  ScheduleBuilder b("order", Mesh{2, 1});
  const StreamIndex one = b.stream("one");
  const StreamIndex two = b.stream("two");
  const CommIndex world = b.communicator("world", Axis::world);
  b.lane("main");
  b.role("all", 0, 2);
  b.step("steady");
  const BufferIndex x = b.persistent("x", BufferKind::bucket, Dtype::fp32, 8);
  const std::vector<View> left{{x, 0, 4}};
  const std::vector<View> right{{x, 4, 4}};
  const auto reduce = [&](const char* verb, StreamIndex stream, const std::vector<View>& view) {
    b.collective(verb, CollectiveKind::all_reduce, world, stream, Dtype::fp32, 1, Reduction::sum,
                 view, view);
  };
  reduce("a", two, left);
  reduce("b", one, right);
  reduce("c", two, left);
  const Schedule schedule = b.take();
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Script work;
    ExecuteOptions options;
    options.threads = seed % 2 == 0;
    options.seed = seed;
    execute(schedule, work, options);
    CHECK(work.log(0) == std::vector<std::string>{"a", "b", "c"});
    CHECK(work.log(1) == std::vector<std::string>{"a", "b", "c"});
  }
}

TEST_CASE("what the schedule leaves open, seeds decide, what it orders, none can change") {
  ScheduleBuilder b("open", Mesh{1, 1});
  const StreamIndex one = b.stream("one");
  const StreamIndex two = b.stream("two");
  b.lane("main");
  b.role("all", 0, 1);
  b.step("steady");
  b.compute("a", one, {}, none, none);
  const OpIndex c = b.compute("c", two, {}, none, none);
  b.stream_wait(one, c);
  b.compute("d", one, {}, none, none);
  const Schedule schedule = b.take();
  std::set<std::vector<std::string>> seen;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Script work;
    ExecuteOptions options;
    options.threads = false;
    options.seed = seed;
    execute(schedule, work, options);
    seen.insert(work.log(0));
    CHECK(work.log(0).back() == "d");
  }
  CHECK(seen.size() == 2);  // a c d, c a d
}

TEST_CASE("a wait on the step before lets the host run one step ahead and no further") {
  // The host waits for the compute of the step before last step's end: E-14's limiter in small.
  ScheduleBuilder b("limiter", Mesh{1, 1});
  const StreamIndex compute = b.stream("compute");
  b.lane("main");
  b.role("all", 0, 1);
  b.step("steady");
  const BufferIndex x = b.buffer("x", BufferKind::workspace, Dtype::fp32, 4, compute);
  const OpRef before{3, 1};
  b.host_wait(std::vector<OpRef>{before});
  b.alloc(x);
  b.host_work("step_overhead", 1);
  const OpIndex done = b.compute("use", compute, {}, none, std::vector<View>{b.whole(x)});
  CHECK(done == 3);
  b.free(x);
  const Schedule schedule = b.take();
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Script work;
    ExecuteOptions options;
    options.threads = false;
    options.seed = seed;
    options.steps = 6;
    const Execution run = execute(schedule, work, options);
    CHECK(work.log(0).size() == 6);
    CHECK(run.peak.at(0) == 4);
    CHECK(run.timeline.steps.size() == 6);
    for (const Span& span : run.timeline.spans) {
      CHECK(span.issued <= span.start);
      CHECK(span.start <= span.end);
    }
  }
}

TEST_CASE("replay: timed ops occupy their queue, and the timeline says so") {
  ScheduleBuilder b("timed", Mesh{2, 1});
  const StreamIndex one = b.stream("one");
  const StreamIndex two = b.stream("two");
  const CommIndex world = b.communicator("world", Axis::world);
  b.lane("main");
  b.role("all", 0, 2);
  b.step("steady");
  const OpIndex gemm = b.compute("gemm", one, {}, none, none);
  b.stream_wait(two, gemm);
  b.collective("all_reduce", CollectiveKind::all_reduce, world, two, Dtype::fp32, 0, Reduction::sum,
               none, none);
  b.compute("gemm2", one, {}, none, none);
  const Schedule schedule = b.take();
  Durations durations(1, {std::vector<OpSeconds>(4, OpSeconds{0.002, 0})});
  Replay work(schedule, durations);
  const Execution run = execute(schedule, work);
  const std::vector<Span>& spans = run.timeline.spans;
  REQUIRE(spans.size() == 3);
  for (const Span& span : spans) {
    CHECK(span.end - span.start >= 0.002 * (1 - 1e-6));
    CHECK(span.solo == doctest::Approx(0.002));
  }
  CHECK(spans[1].start >= spans[0].end);  // waited
  CHECK(spans[1].bound == Bound::wait);
  CHECK(spans[1].cause == gemm);
  CHECK(spans[2].start >= spans[0].end);  // queued
  CHECK(spans[2].bound == Bound::stream);
  CHECK(scaled(run.timeline, 0.5).period() == doctest::Approx(run.timeline.period() / 2));
}

}  // namespace
}  // namespace stepcast::runtime
