// A forecast on a device that is nearly full: the allocator's retries are in the step, in its
// timeline and in what the evaluator says; where they come in every other step, that is said.

#include <doctest/doctest.h>

#include <algorithm>

#include "sim/forecast/evaluator.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/memory/retries.hpp"

using namespace stepcast;

namespace {

// 30 billion parameters on 8 A100: 14 GiB each of fp32 parameters, gradients and two moments.
Scenario full_device(int accumulation) {
  Scenario s = parse_scenario(R"(
model = "mpt-30b"
cluster = "hgx-a100-roce-1600"
gpus = 8
strategy = "fsdp1"
seq_len = 8192
checkpointing = "full"
accumulation_sync = "every"
optimizer = "adamw-unfused"
profile = "composer-torch2"
)",
                              "s.toml");
  s.accumulation = accumulation;
  return s;
}

const ReservedMemory& reserved(const Report& report) { return *report.memory.at(0).reserved; }

int ops_of_retries(const Forecast& f) {
  const std::vector<Op>& ops = f.schedule.roles[0].steps.back().ops;
  return static_cast<int>(std::count_if(ops.begin(), ops.end(), [](const Op& op) {
    return op.kind == OpKind::host_wait && is_of_retry(op);
  }));
}

}  // namespace

TEST_CASE("retries are in the step: as ops, as time, and for the evaluator, too") {
  const Scenario s = full_device(2);
  const Forecast f = forecast(s);
  REQUIRE(f.report.fits);
  REQUIRE(reserved(f.report).retries > 0);
  CHECK(ops_of_retries(f) == reserved(f.report).retries);
  CHECK(reserved(f.report).retried_step == 0);
  // The host stands still for the calls at least, 1 ms each, two a retry or more.
  CHECK(reserved(f.report).retry_wait > 2e-3 * reserved(f.report).retries);
  CHECK(f.report.step_time == doctest::Approx(f.timeline.period()).epsilon(1e-9));

  Scenario roomy = s;
  roomy.gpus = 16;  // the same on each, with half the shards
  roomy.nodes = 2;
  const Forecast room = forecast(roomy);
  CHECK(reserved(room.report).retries == 0);
  CHECK(ops_of_retries(room) == 0);

  Evaluator evaluator;
  for (const Scenario& each : {s, roomy, s}) {
    const EvaluatedReport e = evaluator.report(each);
    const Report& whole = each.gpus == s.gpus ? f.report : room.report;
    CHECK(e.report.step_time == whole.step_time);
    CHECK(reserved(e.report).retries == reserved(whole).retries);
    CHECK(reserved(e.report).peak == reserved(whole).peak);
  }
}

TEST_CASE("a step of many micro-batches has as many retries more") {
  const ReservedMemory few = reserved(forecast(full_device(16)).report);
  const Report many = forecast(full_device(48)).report;
  CHECK(reserved(many).retries > 2 * few.retries);
  CHECK(reserved(many).retry_wait > 2 * few.retry_wait);
  CHECK(reserved(many).retry_wait < many.step_time);
}

TEST_CASE("without FSDP1's limiter the retries come in every other step, which is said apart") {
  // The host is a step ahead and every gather has memory of its own; a step in which it has waited
  // leaves the next one room.
  const Forecast f = forecast(parse_scenario(R"(
model = "llama-2-7b"
cluster = "dgx-h100"
strategy = "fsdp1"
limit_all_gathers = false
)",
                                             "s.toml"));
  CHECK(reserved(f.report).retries > 0);
  CHECK(reserved(f.report).retried_step > f.report.step_time);
  CHECK(ops_of_retries(f) == 0);
}
