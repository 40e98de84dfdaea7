// Ranks that are processes, in one process: collectives over a wire, what travels, who is missing.

#include "runtime/cpu/peers.hpp"

#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <thread>

#include "runtime/cpu/executor.hpp"
#include "runtime/numbers.hpp"
#include "runtime/replay.hpp"
#include "sim/schedule/builder.hpp"
#include "tests/unit/runtime/test_wire.hpp"

namespace stepcast::runtime {
namespace {

// ---- Collectives over a wire, beside the two halves of threads ----------------------------------

std::vector<std::byte> input_of(int rank, Dtype dtype, std::int64_t elements) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(elements * bytes_per_element(dtype)));
  visit(dtype, [&](auto stored) {
    using Stored = decltype(stored);
    using Real = typename Number<Stored>::Real;
    for (std::int64_t e = 0; e < elements; ++e) {
      store<Stored>(bytes.data(), e,
                    static_cast<Real>(static_cast<Real>((e * 7 + rank * 13) % 31) /
                                      static_cast<Real>(std::is_integral_v<Real> ? 1 : 7)));
    }
  });
  return bytes;
}

struct Outcome {
  std::vector<std::vector<std::byte>> received;
  std::vector<std::int64_t> sent;
};

std::int64_t receive_elements(const Collective& c, int ranks) {
  const bool part = c.kind == CollectiveKind::reduce_scatter || c.kind == CollectiveKind::scatter;
  return part ? c.elements / ranks : c.elements;
}

std::int64_t send_elements(const Collective& c, int ranks) {
  const bool part = c.kind == CollectiveKind::all_gather || c.kind == CollectiveKind::gather;
  return part ? c.elements / ranks : c.elements;
}

Outcome over_a_wire(const Collective& c, int ranks) {
  Exchange exchange(ranks);
  Outcome out;
  std::vector<std::vector<std::byte>> inputs;
  for (int r = 0; r < ranks; ++r) {
    inputs.push_back(input_of(r, c.dtype, send_elements(c, ranks)));
    out.received.emplace_back(
        static_cast<std::size_t>(receive_elements(c, ranks) * bytes_per_element(c.dtype)));
  }
  std::vector<int> members;
  for (int r = 0; r < ranks; ++r) members.push_back(r);
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r) {
    threads.emplace_back([&, r] {
      const auto i = static_cast<std::size_t>(r);
      TestWire wire(exchange, r);
      WireRing ring(
          wire, 3, members, [](int) { std::this_thread::yield(); }, [] {});
      ring.carry_out(c, {inputs[i].data(), out.received[i].data()});
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int r = 0; r < ranks; ++r) out.sent.push_back(exchange.tensor_bytes(r));
  return out;
}

std::vector<std::vector<std::byte>> in_two_halves(const Collective& c, int ranks) {
  std::vector<std::vector<std::byte>> inputs, outputs;
  std::vector<Operands> all;
  for (int r = 0; r < ranks; ++r) {
    inputs.push_back(input_of(r, c.dtype, send_elements(c, ranks)));
    outputs.emplace_back(
        static_cast<std::size_t>(receive_elements(c, ranks) * bytes_per_element(c.dtype)));
  }
  for (int r = 0; r < ranks; ++r) {
    const auto i = static_cast<std::size_t>(r);
    all.push_back({inputs[i].data(), outputs[i].data()});
  }
  for (int r = 0; r < ranks; ++r) first_half(c, all, r);
  for (int r = 0; r < ranks; ++r) second_half(c, all, r);
  return outputs;
}

TEST_CASE("a ring of messages computes, bit by bit, what threads compute in two halves") {
  for (const int ranks : {1, 2, 3, 4}) {
    for (const Dtype dtype : {Dtype::fp32, Dtype::bf16, Dtype::int32}) {
      for (const Reduction reduction : {Reduction::sum, Reduction::avg, Reduction::max}) {
        for (const std::int64_t elements : {12, 100'001, 120'000}) {
          CAPTURE(ranks);
          CAPTURE(elements);
          const Collective reduce{CollectiveKind::all_reduce, reduction, dtype, elements, -1};
          CHECK(over_a_wire(reduce, ranks).received == in_two_halves(reduce, ranks));
          if (elements % ranks != 0) continue;
          const Collective scatter{CollectiveKind::reduce_scatter, reduction, dtype, elements, -1};
          CHECK(over_a_wire(scatter, ranks).received == in_two_halves(scatter, ranks));
        }
      }
    }
  }
}

TEST_CASE("collectives with a root end where they should") {
  for (const int ranks : {1, 2, 3, 4}) {
    for (int root = 0; root < ranks; ++root) {
      for (const CollectiveKind kind :
           {CollectiveKind::all_gather, CollectiveKind::broadcast, CollectiveKind::reduce,
            CollectiveKind::gather, CollectiveKind::scatter}) {
        CAPTURE(ranks);
        CAPTURE(root);
        CAPTURE(to_string(kind));
        const Collective c{kind, Reduction::sum, Dtype::int64, 60'000, root};
        const auto got = over_a_wire(c, ranks).received;
        const auto wanted = in_two_halves(c, ranks);
        const bool at_root_only = kind == CollectiveKind::reduce || kind == CollectiveKind::gather;
        for (int r = 0; r < ranks; ++r) {
          if (at_root_only && r != root) continue;
          CHECK(got[static_cast<std::size_t>(r)] == wanted[static_cast<std::size_t>(r)]);
        }
      }
    }
  }
}

TEST_CASE("a rank sends what the volume of a ring says") {
  // 4 ranks, 4,000 fp32 elements = 16,000 B: 2 * 3/4 * 16,000, 3/4 * 16,000, S on a chain.
  const auto sent = [](CollectiveKind kind) {
    return over_a_wire({kind, Reduction::sum, Dtype::fp32, 4000, 0}, 4).sent;
  };
  using Sent = std::vector<std::int64_t>;
  CHECK(sent(CollectiveKind::all_reduce) == Sent(4, 24'000));
  CHECK(sent(CollectiveKind::reduce_scatter) == Sent(4, 12'000));
  CHECK(sent(CollectiveKind::all_gather) == Sent(4, 12'000));
  CHECK(sent(CollectiveKind::broadcast) == Sent{16'000, 16'000, 16'000, 0});
  CHECK(sent(CollectiveKind::reduce) == Sent{0, 16'000, 16'000, 16'000});
}

// ---- Runs ---------------------------------------------------------------------------------------

// `ranks` processes in threads; what each says in the end, empty where all is well.
std::vector<std::string> run_all(
    const Schedule& schedule, Exchange& exchange, Work& work, ExecuteOptions options,
    std::vector<Execution>& results, const std::function<void()>& meanwhile = [] {}) {
  const int ranks = exchange.size();
  std::vector<std::string> said(static_cast<std::size_t>(ranks));
  results.resize(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r) {
    threads.emplace_back([&, r] {
      const auto i = static_cast<std::size_t>(r);
      TestWire wire(exchange, r);
      try {
        results[i] = execute_alone(schedule, work, wire, options);
      } catch (const std::exception& error) {
        said[i] = error.what();
      }
    });
  }
  meanwhile();
  for (std::thread& thread : threads) thread.join();
  return said;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// A gemm, then an all-reduce of 8,000 bytes beside a second gemm; role 1 may leave it out.
Schedule gemms(int ranks, bool all_enter = true, std::int64_t last_elements = 2000) {
  ScheduleBuilder b("gemms", Mesh{ranks, 1});
  const StreamIndex compute = b.stream("compute");
  const StreamIndex nccl = b.stream("nccl");
  const CommIndex world = b.communicator("world", Axis::world);
  b.lane("main");
  const std::vector<View> none;
  for (int role = 0; role < 2; ++role) {
    b.role(role == 0 ? "most" : "last", role == 0 ? 0 : ranks - 1, role == 0 ? ranks - 1 : 1);
    b.step("steady");
    b.at(Phase::backward, b.unit("bucket0"));
    const OpIndex gemm = b.compute("gemm", compute, {}, none, none);
    b.stream_wait(nccl, gemm);
    if (role == 0 || all_enter) {
      b.collective("all_reduce", CollectiveKind::all_reduce, world, nccl, Dtype::fp32,
                   role == 0 ? 2000 : last_elements, Reduction::sum, none, none);
    }
    b.compute("gemm2", compute, {}, none, none);
    b.host_wait_device();
  }
  return b.take();
}

Durations seconds(const Schedule& schedule, Seconds each) {
  Durations all;
  for (const Role& role : schedule.roles) {
    all.push_back({std::vector<OpSeconds>(role.steps[0].ops.size(), OpSeconds{each, 0})});
  }
  return all;
}

TEST_CASE(
    "a replay between processes moves the bytes of its collectives and returns the timeline") {
  const Schedule schedule = gemms(4);
  Replay work(schedule, seconds(schedule, 0.002));
  Exchange exchange(4);
  std::vector<Execution> results;
  const auto said = run_all(schedule, exchange, work, {.steps = 3}, results);
  for (const std::string& text : said) CHECK(text.empty());
  for (int r = 0; r < 4; ++r) CHECK(exchange.tensor_bytes(r) == 3 * 12'000);  // 2 * 3/4 * 8,000
  const Timeline& timeline = results[0].timeline;
  CHECK(timeline.steps.size() == 3);
  // Two gemms, one after the other; clocks that count nanoseconds round.
  CHECK(timeline.period() >= 0.004 * (1 - 1e-6));
  CHECK(results[0].peak.size() == 4);
  // Both roles; gemm, all-reduce, gemm2 and the host's wait in each step.
  REQUIRE(timeline.spans.size() == 2 * 3 * 4);
  for (const Span& span : timeline.spans) CHECK(span.start <= span.end);
  CHECK(results[1].timeline.spans.empty());
}

TEST_CASE("timed ops that follow each other end on time: lateness of threads does not add up") {
  // 200 gemms of 50 us: a thread that wakes 50 us late for each would take twice as long.
  ScheduleBuilder b("many", Mesh{1, 1});
  const StreamIndex compute = b.stream("compute");
  b.lane("main");
  b.role("all", 0, 1);
  b.step("steady");
  const std::vector<View> none;
  for (int i = 0; i < 200; ++i) b.compute("gemm", compute, {}, none, none);
  const Schedule schedule = b.take();
  Replay work(schedule, seconds(schedule, 50e-6));
  const Execution run = execute(schedule, work);
  CHECK(run.timeline.period() == doctest::Approx(0.01));
}

TEST_CASE("a collective that a rank never enters ends every process, and is named on all") {
  const Schedule schedule = gemms(3, false);
  Replay work(schedule, seconds(schedule, 0));
  Exchange exchange(3);
  std::vector<Execution> results;
  for (const std::string& text : run_all(schedule, exchange, work, {.watchdog = 0.2}, results)) {
    CAPTURE(text);
    CHECK(contains(text, "backward.all_reduce.bucket0 (step 0) on communicator world"));
    CHECK(contains(text, "waits for rank 2: ranks 0, 1 entered; rank 2 has ended"));
  }
}

TEST_CASE("processes that enter different collectives are told which") {
  const Schedule schedule = gemms(2, true, 1000);
  Replay work(schedule, seconds(schedule, 0));
  Exchange exchange(2);
  std::vector<Execution> results;
  for (const std::string& text : run_all(schedule, exchange, work, {.watchdog = 2}, results)) {
    CAPTURE(text);
    CHECK(contains(text, "ranks disagree on communicator world"));
    CHECK(contains(text, "all_reduce of 2000 fp32 elements"));
    CHECK(contains(text, "all_reduce of 1000 fp32 elements"));
  }
}

TEST_CASE("a rank that is cut off is named by the others, it says that they do not answer") {
  const Schedule schedule = gemms(3);
  Replay work(schedule, seconds(schedule, 0.001));
  Exchange exchange(3);
  std::vector<Execution> results;
  const auto said =
      run_all(schedule, exchange, work, {.steps = 10'000, .watchdog = 0.3}, results, [&] {
        while (exchange.tensor_bytes(1) < 20'000) std::this_thread::yield();
        exchange.cut(1);
      });
  for (const std::size_t rank : {0, 2}) {
    CAPTURE(said[rank]);
    // Whether the other one is a step behind, and so waited for as well, is the machine's affair.
    CHECK(contains(said[rank], "on communicator world waits for rank"));
    CHECK(contains(said[rank], "rank 1 does not answer"));
  }
  CAPTURE(said[1]);
  CHECK(contains(said[1], "ranks 0, 2 do not answer"));
}

TEST_CASE("a rank that is told to end says what it waited for") {
  const Schedule schedule = gemms(2, false);
  Replay work(schedule, seconds(schedule, 0));
  Exchange exchange(2);
  exchange.cut(1);  // as if dead
  std::atomic<bool> end_now{true};
  std::vector<Execution> results;
  const auto said =
      run_all(schedule, exchange, work, {.watchdog = 60, .end_now = &end_now}, results);
  CAPTURE(said[0]);
  CHECK(contains(said[0], "ended from outside while"));
  CHECK(contains(said[0], "rank 1 does not answer"));
}

// A rank whose work fails.
class Failing : public Replay {
 public:
  using Replay::Replay;
  void run(const OpContext& c) override {
    if (c.rank == 1) throw std::runtime_error("gemm read poison");
  }
};

TEST_CASE("what fails on one rank ends the others with its words") {
  const Schedule schedule = gemms(3);
  Failing work(schedule, seconds(schedule, 0));
  Exchange exchange(3);
  std::vector<Execution> results;
  const auto said = run_all(schedule, exchange, work, {.watchdog = 60}, results);
  CHECK(contains(said[0], "rank 1: gemm read poison"));
  CHECK(contains(said[2], "rank 1: gemm read poison"));
}

}  // namespace
}  // namespace stepcast::runtime
