#include "sim/memory/ledger.hpp"

#include <doctest/doctest.h>

#include <stdexcept>

#include "base/error.hpp"
#include "sim/schedule/text.hpp"

using namespace stepcast;

namespace {

// 16 KiB of parameters; units a and b gathered in turn, an activation from forward to backward.
const char* const two_units = R"(stepcast-schedule 1
schedule test
mesh shard=2
lane main
stream compute
buffer weight   parameter       fp32 16KiB persistent
buffer moments  optimizer_state fp32 32KiB persistent
buffer half     parameter       fp32 8KiB  persistent view_of=weight at=0B
buffer a        unsharded       bf16 4KiB  pool=compute
buffer b        unsharded       bf16 6KiB  pool=compute
buffer kept     activation      bf16 3KiB  pool=compute
buffer grad     gradient        fp32 5KiB  pool=compute
role all ranks=0..1
step steady
  forward.alloc.a    alloc a
  forward.alloc.b    alloc b
  forward.free.a     free a
  forward.keep       alloc kept
  forward.free.b     free b after_streams streams=compute
  backward.alloc.a   alloc a
  backward.grad.a    alloc grad
  backward.free.a    free a
  backward.drop      free kept
  optimizer.zero     free grad
end
)";

Bytes of(const KindBytes& bytes, BufferKind kind) { return bytes[static_cast<std::size_t>(kind)]; }

}  // namespace

TEST_CASE("the ledger follows alloc and free in host order") {
  const RoleLedger ledger = memory_ledger(parse_schedule(two_units, "test")).at(0);
  CHECK(ledger.ranks == 2);
  CHECK(ledger.persistent == 48 * kib);  // the view counts nothing
  // KiB after each op: +4, +6, -4, +3, -6, +4, +5, -4, -3, -5
  const std::vector<Bytes> expected = {52, 58, 54, 57, 51, 55, 60, 56, 53, 48};
  REQUIRE(ledger.samples.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    CHECK(ledger.samples[i].total == expected[i] * kib);
    CHECK(ledger.samples[i].op == static_cast<OpIndex>(i));
  }
  CHECK(ledger.growth == 0);
}

TEST_CASE("the peak names its moment and what holds it") {
  const RoleLedger ledger = memory_ledger(parse_schedule(two_units, "test")).at(0);
  CHECK(ledger.peak.total == 60 * kib);
  CHECK(ledger.peak.op_name == "backward.grad.a");
  CHECK(ledger.peak.phase == Phase::backward);
  CHECK(ledger.peak.step == Name("steady"));
  CHECK(of(ledger.peak.by_kind, BufferKind::parameter) == 16 * kib);
  CHECK(of(ledger.peak.by_kind, BufferKind::optimizer_state) == 32 * kib);
  CHECK(of(ledger.peak.by_kind, BufferKind::unsharded) == 4 * kib);
  CHECK(of(ledger.peak.by_kind, BufferKind::gradient) == 5 * kib);
  CHECK(of(ledger.peak.by_kind, BufferKind::activation) == 3 * kib);
  REQUIRE(ledger.peak.holdings.size() == 5);
  CHECK(ledger.peak.holdings[0].buffer == Name("moments"));
  CHECK(ledger.peak.holdings[4].buffer == Name("kept"));
  Bytes sum = 0;
  for (const LedgerHolding& holding : ledger.peak.holdings) sum += holding.bytes;
  CHECK(sum == ledger.peak.total);
  // a and b together, though not at the peak
  CHECK(of(ledger.highest_by_kind, BufferKind::unsharded) == 10 * kib);
}

TEST_CASE("the earliest of equal peaks is the peak") {
  const RoleLedger ledger = memory_ledger(parse_schedule(R"(stepcast-schedule 1
mesh shard=1
lane main
stream compute
buffer x other fp32 4B pool=compute
role all ranks=0
step steady
  forward.one    alloc x
  forward.free   free x
  backward.two   alloc x
  backward.free  free x
end
)",
                                                         "test"))
                                .at(0);
  CHECK(ledger.peak.op_name == "forward.one");
  CHECK(ledger.peak.total == 4);
}

TEST_CASE("without an alloc the peak is what persists") {
  const RoleLedger ledger = memory_ledger(parse_schedule(R"(stepcast-schedule 1
mesh shard=1
stream compute
buffer x other fp32 4KiB persistent
role all ranks=0
step steady
end
)",
                                                         "test"))
                                .at(0);
  CHECK(ledger.peak.total == 4 * kib);
  CHECK(ledger.peak.op == -1);
  CHECK(ledger.peak.op_name.empty());
  CHECK(ledger.samples.empty());
}

TEST_CASE("what an earlier program allocates stays, and every step has its own peak") {
  const RoleLedger ledger = memory_ledger(parse_schedule(R"(stepcast-schedule 1
mesh shard=1
lane main
stream compute
buffer state optimizer_state fp32 8KiB pool=compute
buffer act activation bf16 4KiB pool=compute
role all ranks=0
step first
  forward.act      alloc act
  backward.act     free act
  optimizer.state  alloc state
step steady
  forward.act      alloc act
  backward.act     free act
end
)",
                                                         "test"))
                                .at(0);
  REQUIRE(ledger.step_peaks.size() == 2);
  CHECK(ledger.step_peaks[0].total == 8 * kib);  // the states, made lazily
  CHECK(ledger.step_peaks[0].op_name == "optimizer.state");
  CHECK(ledger.step_peaks[1].total == 12 * kib);  // the states and the activation
  CHECK(ledger.peak.total == 12 * kib);
  CHECK(ledger.peak.step == Name("steady"));
  CHECK(ledger.growth == 0);
}

TEST_CASE("a persistent buffer belongs to the roles that use it") {
  const std::vector<RoleLedger> ledgers = memory_ledger(parse_schedule(R"(stepcast-schedule 1
mesh shard=4
lane main
stream compute
buffer weight parameter fp32 16KiB persistent
buffer moments optimizer_state fp32 32KiB persistent
buffer context other fp32 1KiB persistent
role gpu0 ranks=0
step steady
  forward.compute  compute stream=compute reads=weight
  optimizer.adamw  compute stream=compute reads=moments writes=weight,moments
role rest ranks=1..3
step steady
  forward.compute  compute stream=compute reads=weight
end
)",
                                                                       "test"));
  REQUIRE(ledgers.size() == 2);
  CHECK(ledgers[0].persistent == 49 * kib);
  CHECK(ledgers[1].persistent == 17 * kib);  // no optimizer state; what nobody uses is everyone's
  CHECK(ledgers[1].ranks == 3);
}

TEST_CASE("sums beyond 64 bits are refused, broken schedules asserted") {
  Schedule schedule = parse_schedule(two_units, "test");
  schedule.buffers[0].bytes = schedule.buffers[1].bytes = std::int64_t{1} << 62;
  CHECK_THROWS_AS(memory_ledger(schedule), InputError);
  Schedule leaking = parse_schedule(two_units, "test");
  leaking.roles[0].steps[0].ops.pop_back();
  CHECK_THROWS_AS(memory_ledger(leaking), std::logic_error);
}
