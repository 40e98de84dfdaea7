// Retries as ops of the steady step: what they are, what they take, and that everything else stays.

#include "sim/memory/retries.hpp"

#include <doctest/doctest.h>

#include "sim/engines/engine.hpp"
#include "sim/schedule/problems.hpp"
#include "sim/schedule/text.hpp"
#include "tests/unit/memory/eight_units.hpp"

namespace stepcast {
namespace {

// Two tensors of 30 MiB in the pool of `side`: `a` is used on `compute` for 6 s and freed by
// record_stream, the host does not wait, and `b` is asked for. With room for 40 MiB `b` has to wait
// until `a` is past, and its segment given back.
const char* const retrying_step = R"(stepcast-schedule 1
mesh shard=1
lane main
stream compute
stream side
buffer a unsharded bf16 30MiB pool=side
buffer b unsharded bf16 30MiB pool=side
role all ranks=0
step steady
  forward.a        alloc a
  forward.compute  compute stream=compute writes=a
  forward.free_a   free a after_streams streams=compute
  forward.b        alloc b
  backward.compute compute stream=compute writes=b
  backward.wait    stream_wait stream=side on=forward.compute
  backward.free_b  free b
end
)";

// A kernel takes 6 s, a call of cudaMalloc or cudaFree 1 s.
CostTable costs_of(const Schedule& schedule) {
  CostTable table;
  for (const Role& role : schedule.roles) {
    auto& programs = table.cost_of.emplace_back();
    for (const StepProgram& step : role.steps) {
      auto& ops = programs.emplace_back();
      for (const Op& op : step.ops) {
        const Seconds solo = op.kind == OpKind::compute ? 6 : 0;
        const Seconds host = op.kind == OpKind::host_work ? op.count : 0;
        ops.push_back(solo + host == 0 ? -1
                                       : table.add(solo, {}, host, Provenance::assumed, "given"));
      }
    }
  }
  return table;
}

Timeline run(const Schedule& schedule) {
  const auto found = problems(schedule);
  REQUIRE_MESSAGE(found.empty(), found.front());
  return make_formula_engine()->run(schedule, costs_of(schedule), {});
}

std::vector<RoleReplay> replays_of(const Schedule& schedule, const Timeline& timeline,
                                   Bytes capacity) {
  ReplayOptions options;
  options.allocator.capacity = capacity;
  return replay_memory(schedule, timeline, options);
}

TEST_CASE("a retry: the host waits for the device, then pays each call") {
  const Schedule schedule = parse_schedule(retrying_step, "test");
  const std::vector<RoleReplay> replays = replays_of(schedule, run(schedule), 40 * mib);
  REQUIRE(replays.size() == 1);
  REQUIRE(retries_in_step(replays));
  // Of the last step: `a` gets the block that `b` gave back; `b` finds 30 MiB waiting and 10 MiB of
  // room, so one cudaFree and one cudaMalloc.
  REQUIRE(replays[0].stalls.size() == 1);
  CHECK(replays[0].stalls[0].op == 3);
  CHECK(replays[0].stalls[0].retried);
  CHECK(replays[0].stalls[0].calls == 2);

  const Schedule stalled = with_retries(schedule, replays);
  const std::vector<Op>& ops = stalled.roles[0].steps.back().ops;
  REQUIRE(ops.size() == 9);
  const std::vector<std::string> names = op_names(stalled, stalled.roles[0].steps.back());
  CHECK(names[3] == "forward.wait_for_device");
  CHECK(names[4] == "forward.cuda_malloc");
  CHECK(names[5] == "forward.b");
  CHECK(ops[3].wait_target == WaitTarget::device);
  CHECK(ops[4].count == 2);
  CHECK(is_of_retry(ops[3]));
  CHECK(is_of_retry(ops[4]));
  CHECK(!is_of_retry(ops[5]));
  // The wait of the side stream still waits for the first kernel, which has not moved.
  CHECK(stalled.at_refs(ops[7].waits)[0].op == 1);

  // 6 s of kernels, 2 s in which the device has nothing to do, 6 s: without retries 12 s.
  CHECK(run(schedule).period() == doctest::Approx(12));
  CHECK(run(stalled).period() == doctest::Approx(14));

  // Replayed with its waits the step asks at the same op, before it has waited.
  const std::vector<RoleReplay> again = replays_of(stalled, run(stalled), 40 * mib);
  CHECK(again[0].retries == 1);
  REQUIRE(again[0].stalls.size() == 1);
  CHECK(again[0].stalls[0].op == 5);
  CHECK(again[0].stalls[0].calls == 2);
}

TEST_CASE("a step without a retry is left as it is") {
  const Schedule schedule = parse_schedule(retrying_step, "test");
  const std::vector<RoleReplay> replays = replays_of(schedule, run(schedule), 0);
  CHECK(!retries_in_step(replays));
  CHECK(equal(with_retries(schedule, replays), schedule));
}

TEST_CASE("ops that wait for ops behind a retry follow them") {
  // FSDP1's step with a retry before each alloc: still a schedule, and all wait for what they did.
  const Schedule schedule = build_schedule(eight_units(StrategyKind::fsdp1));
  RoleReplay every;
  every.retries = 1;
  const std::vector<Op>& before = schedule.roles[0].steps.back().ops;
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (before[i].kind == OpKind::alloc) {
      every.stalls.push_back({static_cast<OpIndex>(i), true, 1});
    }
  }
  REQUIRE(!every.stalls.empty());
  const Schedule stalled = with_retries(schedule, {every});
  CHECK(problems(stalled).empty());
  const std::vector<Op>& after = stalled.roles[0].steps.back().ops;
  REQUIRE(after.size() == before.size() + 2 * every.stalls.size());
  std::vector<OpIndex> from;  // of the ops that were there
  for (std::size_t i = 0; i < after.size(); ++i) {
    if (!is_of_retry(after[i])) from.push_back(static_cast<OpIndex>(i));
  }
  int waits = 0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    const std::span<const OpRef> was = schedule.at_refs(before[i].waits);
    const std::span<const OpRef> is =
        stalled.at_refs(after[static_cast<std::size_t>(from[i])].waits);
    REQUIRE(was.size() == is.size());
    for (std::size_t w = 0; w < was.size(); ++w) {
      CHECK(is[w].steps_back == was[w].steps_back);
      CHECK(is[w].op == from[static_cast<std::size_t>(was[w].op)]);
      ++waits;
    }
  }
  CHECK(waits > 10);
}

}  // namespace
}  // namespace stepcast
