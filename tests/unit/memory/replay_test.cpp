// The replay of whole steps: lifetimes by rule, and FSDP1's and FSDP2's memory as the facts have
// it.

#include "sim/memory/replay.hpp"

#include <doctest/doctest.h>

#include "sim/engines/engine.hpp"
#include "sim/schedule/problems.hpp"
#include "sim/schedule/text.hpp"
#include "sim/strategies/strategy.hpp"
#include "tests/unit/memory/eight_units.hpp"

namespace stepcast {
namespace {

Timeline run(const Schedule& schedule, const std::function<Seconds(const Op&)>& cost,
             std::vector<int> programs) {
  REQUIRE(problems(schedule).empty());
  RunOptions options;
  options.programs = std::move(programs);
  return make_formula_engine()->run(schedule, costs_by(schedule, cost), options);
}

// A tensor of 30 MiB of the side stream's pool is used on the compute stream for 6 seconds, freed,
// and another of the same size is asked for; the host does not wait.
std::string two_tensors(const std::string& free, const std::string& wait = "") {
  return R"(stepcast-schedule 1
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
  forward.free_a   )" +
         free + "\n" + wait + R"(  forward.b        alloc b
  forward.free_b   free b
end
)";
}

RoleReplay replay_of(const std::string& text) {
  const Schedule schedule = parse_schedule(text, "test");
  const Timeline timeline =
      run(schedule, [](const Op& op) { return op.kind == OpKind::compute ? 6.0 : 0.0; }, {0});
  return replay_memory(schedule, timeline, 0);
}

TEST_CASE("a free in host order is what the next alloc of its pool gets") {
  const RoleReplay replay = replay_of(two_tensors("free a"));
  CHECK(replay.peak_reserved == 30 * mib);
  CHECK(replay.peak_active == 30 * mib);
}

TEST_CASE("record_stream: a host that runs ahead finds the event not passed and takes new memory") {
  const RoleReplay ahead = replay_of(two_tensors("free a after_streams streams=compute"));
  CHECK(ahead.peak_reserved == 60 * mib);
  CHECK(ahead.peak_active == 60 * mib);
  CHECK(ahead.peak_allocated == 30 * mib);  // what memory_allocated() shows all the time
  CHECK(ahead.at_peak.op_name == "forward.b");
  CHECK(ahead.at_peak.waiting == 30 * mib);
  CHECK(ahead.at_peak.by_kind[static_cast<std::size_t>(BufferKind::unsharded)] == 60 * mib);
  // A host that waits for the kernel finds it passed.
  const RoleReplay waits = replay_of(
      two_tensors("free a after_streams streams=compute", "  forward.wait  host_wait device\n"));
  CHECK(waits.peak_reserved == 30 * mib);
}

TEST_CASE("a free after an op waits for that op") {
  const RoleReplay replay = replay_of(two_tensors("free a after_op on=forward.compute"));
  CHECK(replay.peak_reserved == 60 * mib);
}

TEST_CASE("samples: allocated <= active <= reserved, a sample for every alloc and free") {
  const RoleReplay replay = replay_of(two_tensors("free a after_streams streams=compute"));
  REQUIRE(replay.samples.size() == 4);
  CHECK(replay.samples[1].allocated == 0);
  CHECK(replay.samples[1].active == 30 * mib);
  CHECK(replay.samples[1].reserved == 30 * mib);
  CHECK(replay.samples[3].reserved == 60 * mib);
}

// ---- FSDP ---------------------------------------------------------------------------------------
// Eight blocks of 4 h^2 + 3 h f + 2 h = 16,779,264 parameters: 33,558,528 B in bf16, which is just
// above 32 MiB and takes a segment of 34. The root (256 x 1024 twice and a norm) has 525,312
// parameters: 1,050,624 B, above 1 MiB, a segment of 20 MiB. Activations are next to nothing.

constexpr std::int64_t psi = 16'779'264;
constexpr std::int64_t root_psi = 525'312;

// The GPU is the bottleneck: 3 forward and 6 backward a unit, 1 a collective; the host needs none.
Seconds gpu_bound(const Op& op) {
  if (op.kind == OpKind::collective) return 1;
  if (op.verb != Name("compute")) return 0;
  return op.phase == Phase::forward ? 3 : 6;
}

Bytes pool(const Schedule& schedule, const RoleReplay& replay, const char* stream) {
  for (std::size_t s = 0; s < schedule.streams.size(); ++s) {
    if (schedule.streams[s].name == Name(stream)) return replay.reserved_by_stream[s];
  }
  FAIL("no such stream");
  return 0;
}

TEST_CASE("V11 in kind: without the limiter FSDP1 has memory for every gather of a step at once") {
  TrainingStep step = eight_units(StrategyKind::fsdp1);
  step.first_step = true;
  step.strategy.limit_all_gathers = false;
  const Schedule off = build_schedule(step);
  const RoleReplay without = replay_memory(off, run(off, gpu_bound, {0}), 0);
  // At time 0 the host has issued the step: 8 gathers forward, 8 backward, the root's.
  CHECK(pool(off, without, "unshard") == 16 * 34 * mib + 20 * mib);

  step.strategy.limit_all_gathers = true;
  const Schedule on = build_schedule(step);
  const RoleReplay with = replay_memory(on, run(on, gpu_bound, {0}), 0);
  // Forward: the host allocates unit i once unit i - 2 is through: two. At the turn the last two
  // units are gathered for backward without an event to wait for, while the last one's forward
  // runs (E-14's two prefetches without a pop): three.
  CHECK(pool(on, with, "unshard") == 3 * 34 * mib + 20 * mib);
  CHECK(without.peak_active > 2 * with.peak_active);  // V11: 38.6 over 7.2 GB
  // Allocated, as counted in host order, does not see it.
  CHECK(without.peak_allocated < with.peak_active + 34 * mib);
}

TEST_CASE("FSDP2's peak is 10 bytes a parameter of a unit, whatever the host does") {
  TrainingStep step = eight_units(StrategyKind::fsdp2);
  step.mesh = {1, 64};  // gradient shards are small beside a unit: 4 * 8 / 64 of one at the end
  const Schedule schedule = build_schedule(step);
  const RoleReplay replay = replay_memory(schedule, run(schedule, gpu_bound, {0, 0, 0}), 0);
  const RoleLedger ledger = memory_ledger(schedule).at(0);
  // E-20's count: unsharded 2, the next gather's output 2, gradients 2, the last reduce input 4.
  // Beside it: the root's 2, its gradients, gradient shards so far (4 / 64), activations.
  // Between 10 and 11 bytes.
  const Bytes transient = replay.peak_allocated - ledger.persistent;
  CHECK(transient > 10 * psi);
  CHECK(transient < 10 * psi + 4 * (8 * psi + root_psi) / 64 + 8 * root_psi + 2 * mib);
  CHECK(transient < 11 * psi);
  CHECK(replay.peak_active == replay.peak_allocated);  // nothing is recorded on a stream
  // Two gather outputs in forward are all that the all-gather's pool ever has (34 MiB each), and
  // the root's output.
  CHECK(replay.peak_reserved >= replay.peak_active);
}

TEST_CASE("a steady step finds its memory in the cache: reserved does not grow") {
  for (const StrategyKind kind : {StrategyKind::ddp, StrategyKind::zero2, StrategyKind::zero3,
                                  StrategyKind::fsdp1, StrategyKind::fsdp2}) {
    TrainingStep step = eight_units(kind);
    if (kind == StrategyKind::ddp || kind == StrategyKind::zero2) step.mesh = {8, 1};
    if (kind == StrategyKind::ddp) step.precision = precision_recipe("amp-bf16");
    if (kind == StrategyKind::zero2 || kind == StrategyKind::zero3) {
      step.precision = precision_recipe("bf16-master");
    }
    const Schedule schedule = build_schedule(step);
    const Timeline timeline = run(schedule, gpu_bound, {0, 0, 0, 0});
    for (const bool expandable : {false, true}) {
      ReplayOptions options;
      options.allocator.expandable_segments = expandable;
      const RoleReplay replay = replay_memory(schedule, timeline, 0, options);
      INFO(schedule.name << (expandable ? " expandable" : ""));
      CHECK(replay.peak_allocated <= replay.peak_active);
      CHECK(replay.peak_active <= replay.peak_reserved);
      Bytes by_step[4] = {0, 0, 0, 0};
      for (const ReservedSample& s : replay.samples) by_step[s.step] = s.reserved;
      CHECK(by_step[3] == by_step[2]);
      // Tensors alone agree with the ledger but for the rounding to 512 B (and uncut 1 MiB rests).
      const Bytes ledger = memory_ledger(schedule).at(0).peak.total;
      CHECK(replay.peak_allocated >= ledger);
      CHECK(static_cast<double>(replay.peak_allocated) < 1.05 * static_cast<double>(ledger));
    }
  }
}

TEST_CASE("a device that is nearly full retries and reports the wait, a smaller one is out") {
  TrainingStep step = eight_units(StrategyKind::fsdp1);
  step.first_step = true;
  step.strategy.limit_all_gathers = false;
  const Schedule schedule = build_schedule(step);
  const Timeline timeline = run(schedule, gpu_bound, {0});
  const RoleReplay free = replay_memory(schedule, timeline, 0);
  CHECK(free.retries == 0);
  ReplayOptions options;
  options.allocator.capacity = free.peak_reserved - 100 * mib;
  const RoleReplay tight = replay_memory(schedule, timeline, 0, options);
  CHECK(tight.out_of_memory.empty());
  CHECK(tight.retries >= 1);
  CHECK(tight.retry_wait > 0);  // the host was at 0, the GPU had a forward or more to do
  CHECK(tight.peak_reserved <= options.allocator.capacity);
  options.allocator.capacity = memory_ledger(schedule).at(0).persistent + 40 * mib;
  const RoleReplay out = replay_memory(schedule, timeline, 0, options);
  REQUIRE(out.out_of_memory.size() == 1);
  CHECK(out.out_of_memory[0].requested > 0);
  CHECK(!out.out_of_memory[0].at.op_name.empty());
}

TEST_CASE("an eager loss reserves 14 bytes a token and vocabulary entry, of which 12 are used") {
  // Forward: logits 2, fp32 copy 4, log-probabilities 4. Backward: the first fp32 gradient takes
  // the copy's block, the second needs 4 more; the 2 of the logits stay cached. T V = 4096 x 32768
  // = 128 Mi, everything else is small.
  TrainingStep step = eight_units(StrategyKind::ddp);
  Architecture a = step.model.architecture;
  a.hidden = 64;
  a.layers = 1;
  a.heads = a.kv_heads = 4;
  a.head_size = 16;
  a.ffn_hidden = 128;
  a.vocabulary = 32768;
  step.model = build_model("loss", a);
  step.workload.seq_len = 4096;
  step.mesh = {8, 1};
  step.precision = precision_recipe("bf16-pure");
  const Schedule schedule = build_schedule(step);
  const RoleReplay replay = replay_memory(schedule, run(schedule, gpu_bound, {0, 0, 0}), 0);
  constexpr Bytes entries = 128 * mib;
  CHECK(replay.peak_allocated >= 12 * entries);
  CHECK(replay.peak_allocated < 13 * entries);
  CHECK(replay.peak_reserved >= 14 * entries);
  CHECK(replay.peak_reserved < 15 * entries);
}

}  // namespace
}  // namespace stepcast
