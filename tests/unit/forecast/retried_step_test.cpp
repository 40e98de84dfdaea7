// A forecast on a device that is nearly full: the allocator's retries are in the step, in its
// timeline and in what the evaluator says; where a step with them would have fewer, they are said
// beside it.

#include <doctest/doctest.h>

#include <algorithm>

#include "sim/forecast/evaluator.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/forecast/interval.hpp"
#include "sim/memory/retries.hpp"

using namespace stepcast;

namespace {

// Tensors take 69.5 GiB of 79.1 at the peak, and their blocks all of it.
Scenario full_device() {
  return parse_scenario(R"(
model = "llama-3-8b"
cluster = "dgx-h100"
nodes = 2
strategy = "hsdp"
seq_len = 8192
micro_batch = 1
)",
                        "s.toml");
}

const ReservedMemory& reserved(const Report& report) { return *report.memory.at(0).reserved; }

int waits_of(const Forecast& f) {
  const std::vector<Op>& ops = f.schedule.roles[0].steps.back().ops;
  return static_cast<int>(std::count_if(ops.begin(), ops.end(), [](const Op& op) {
    return op.kind == OpKind::host_wait && is_of_retry(op);
  }));
}

}  // namespace

TEST_CASE("retries are in the step: as ops, as time, and for the evaluator, too") {
  const Scenario s = full_device();
  const Forecast f = forecast(s);
  REQUIRE(f.report.fits);
  REQUIRE(reserved(f.report).retries > 0);
  CHECK(waits_of(f) == reserved(f.report).retries);
  CHECK(reserved(f.report).retried_step == 0);
  // Replayed with its waits, the step retries where it waits.
  REQUIRE(f.memory.size() == 1);
  CHECK(f.memory[0].retries == reserved(f.report).retries);

  Scenario roomy = s;
  roomy.expandable_segments = true;
  const Forecast room = forecast(roomy);
  CHECK(reserved(room.report).retries == 0);
  CHECK(waits_of(room) == 0);
  // The same step but for the waits: that is what they are said to cost.
  CHECK(reserved(f.report).retry_wait ==
        doctest::Approx(f.timeline.period() - room.timeline.period()));
  CHECK(reserved(f.report).retry_wait > 2e-3 * reserved(f.report).retries);

  Evaluator evaluator;
  for (const Scenario& each : {s, roomy, s}) {
    const EvaluatedReport e = evaluator.report(each);
    const Report& whole = each.expandable_segments ? room.report : f.report;
    CHECK(e.report.step_time == whole.step_time);
    CHECK(reserved(e.report).retries == reserved(whole).retries);
    CHECK(reserved(e.report).retry_wait == reserved(whole).retry_wait);
    CHECK(reserved(e.report).peak == reserved(whole).peak);
  }

  const Forecast to_run = forecast(s, {.to_run = true});
  CHECK(waits_of(to_run) == 0);
  CHECK(to_run.timeline.period() == doctest::Approx(room.timeline.period()));
}

TEST_CASE("without FSDP1's limiter a step with its retries has fewer: they are said beside it") {
  // The host is a step ahead and every gather has memory of its own; where it has waited, it is
  // not.
  const Forecast f = forecast(parse_scenario(R"(
model = "llama-2-7b"
cluster = "dgx-h100"
strategy = "fsdp1"
limit_all_gathers = false
)",
                                             "s.toml"));
  CHECK(reserved(f.report).retries > 0);
  CHECK(reserved(f.report).retry_wait == 0);
  CHECK(reserved(f.report).retried_step > f.report.step_time);
  CHECK(waits_of(f) == 0);
  CHECK(interval_of(f.report, f.resolved.profile).high >= reserved(f.report).retried_step);
}

TEST_CASE("a first step leaves its retries out") {
  Scenario s = full_device();
  s.step = "first";
  const Forecast f = forecast(s);
  CHECK(waits_of(f) == 0);
  CHECK(reserved(f.report).retry_wait == 0);
  CHECK(reserved(f.report).retried_step == 0);
}
