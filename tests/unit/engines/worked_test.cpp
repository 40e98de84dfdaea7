// The worked examples of docs/sources.md: DDP (E-8), FSDP2 (E-10, E-12), HSDP (E-13), event for
// event, with the hand calculation beside each. E-10, E-12 and E-13 are replayed from the rules,
// not traced on hardware.

#include <map>

#include "sim/engines/engine.hpp"
#include "tests/unit/engines/engines_under_test.hpp"
#include "tests/unit/engines/worked_schedules.hpp"

namespace stepcast::testing {
namespace {

using Events = std::map<std::string, std::string>;  // op -> "START-END"

void check_events(const Schedule& schedule, const CostTable& costs, const Events& expected,
                  Seconds end) {
  in_both_engines([&](Engine& engine) {
    const Timeline timeline = engine.run(schedule, costs, {.programs = {0}});
    for (const auto& event : expected) {
      CAPTURE(event.first);
      CHECK(when(span(schedule, timeline, event.first)) == event.second);
    }
    CHECK(near(timeline.period(), end));
  });
}

// Forward 2 a layer, backward 4, all-reduce 5 for each 10 MiB.
CostTable ddp_costs(const Schedule& schedule) {
  return costs_by(schedule, [](const Op& op) -> Seconds {
    if (op.kind == OpKind::collective) return 5.0 * static_cast<double>(bytes_of(op)) / (10 * mib);
    return op.verb == Name("forward") ? 2.0 : 4.0;
  });
}

struct Fsdp2Seconds {
  Seconds unit_gather = 2;  // and reduce-scatter
  Seconds all_reduce = 4;
};

// Root: gather 1, embedding 1, head 1 forward and 2 backward, embedding backward 1, reduce-scatter
// 1; units: forward 3, backward 6. Copies cost nothing.
CostTable fsdp2_costs(const Schedule& schedule, Fsdp2Seconds seconds = {}) {
  return costs_by(schedule, [&](const Op& op) -> Seconds {
    const bool root = schedule.units[static_cast<std::size_t>(op.unit)] == Name("root");
    if (op.kind == OpKind::collective) {
      if (op.collective == CollectiveKind::all_reduce) return seconds.all_reduce;
      return root ? 1 : seconds.unit_gather;
    }
    if (op.verb == Name("compute")) return op.phase == Phase::forward ? 3 : 6;
    if (op.verb == Name("head")) return op.phase == Phase::forward ? 1 : 2;
    if (op.verb == Name("embedding")) return 1;
    return 0;
  });
}

TEST_CASE(
    "DDP with the default buckets ends at 39: the second all-reduce starts with the last "
    "gradient") {
  // Backward of layers 3..0: 8-12, 12-16, 16-20, 20-24. Bucket 0 is layer 3 (10 MiB: 5), bucket 1
  // is the rest (30 MiB: 15), ready at 24.
  const Schedule schedule = ddp(4, {{3}, {2, 1, 0}});
  check_events(schedule, ddp_costs(schedule),
               {{"forward.forward.l0", "0-2"},
                {"forward.forward.l3", "6-8"},
                {"backward.backward.l3", "8-12"},
                {"backward.backward.l0", "20-24"},
                {"backward.all_reduce.b0", "12-17"},
                {"backward.all_reduce.b1", "24-39"}},
               39);
}

TEST_CASE(
    "DDP in its first iteration reduces everything in one bucket after backward and ends at 44") {
  const Schedule schedule = ddp(4, {{3, 2, 1, 0}});
  check_events(schedule, ddp_costs(schedule), {{"backward.all_reduce.b0", "24-44"}}, 44);
}

TEST_CASE("DDP with a bucket a layer ends at 32: each all-reduce follows the one before") {
  // Gradients at 12, 16, 20, 24; an all-reduce takes 5, a layer 4.
  const Schedule schedule = ddp(4, {{3}, {2}, {1}, {0}});
  check_events(schedule, ddp_costs(schedule),
               {{"backward.all_reduce.b0", "12-17"},
                {"backward.all_reduce.b1", "17-22"},
                {"backward.all_reduce.b2", "22-27"},
                {"backward.all_reduce.b3", "27-32"}},
               32);
}

TEST_CASE("FSDP2 with a root and three units ends at 36, event for event") {
  const Schedule schedule = fsdp2({});
  check_events(schedule, fsdp2_costs(schedule),
               {{"forward.all_gather.root", "0-1"},
                {"forward.embedding.root", "1-2"},
                {"forward.all_gather.u0", "1-3"},
                {"forward.compute.u0", "3-6"},
                {"forward.all_gather.u1", "3-5"},
                {"forward.compute.u1", "6-9"},
                {"forward.all_gather.u2", "5-7"},  // copy-out of u0 was at 3
                {"forward.compute.u2", "9-12"},
                {"forward.head.root", "12-13"},
                {"backward.all_gather.u2", "9-11"},  // from the copy-out of u2 on: overlaps forward
                {"backward.head.root", "13-15"},
                {"backward.all_gather.u1", "15-17"},  // from the copy-out of u2 on
                {"backward.compute.u2", "15-21"},
                {"backward.reduce_scatter.u2", "21-23"},
                {"backward.all_gather.u0", "23-25"},  // in the queue behind the reduce-scatter
                {"backward.compute.u1", "21-27"},
                {"backward.reduce_scatter.u1", "27-29"},
                {"backward.compute.u0", "27-33"},
                {"backward.reduce_scatter.u0", "33-35"},
                {"backward.embedding.root", "33-34"},
                {"backward.reduce_scatter.root", "35-36"}},
               36);
}

TEST_CASE("FSDP2 with collectives of 5 ends at 50: gathers queue behind reduce-scatters") {
  const Schedule schedule = fsdp2({});
  check_events(schedule, fsdp2_costs(schedule, {.unit_gather = 5}),
               {{"forward.compute.u0", "6-9"},
                {"forward.compute.u1", "11-14"},
                {"forward.compute.u2", "16-19"},
                {"backward.compute.u2", "22-28"},
                {"backward.reduce_scatter.u2", "28-33"},
                {"backward.all_gather.u0", "33-38"},
                {"backward.compute.u1", "28-34"},
                {"backward.reduce_scatter.u1", "38-43"},
                {"backward.compute.u0", "38-44"},
                {"backward.reduce_scatter.u0", "44-49"},
                {"backward.reduce_scatter.root", "49-50"}},
               50);
}

TEST_CASE("FSDP2 with reduce-scatters on their own communicator ends at 46") {
  // The gather of u0 starts with the backward of u1 (28) and no longer waits for the
  // reduce-scatter of u2; u0 then follows u1 at once (34-40), its reduce-scatter 40-45, root 45-46.
  const Schedule schedule = fsdp2({.separate_reduce_scatter = true});
  check_events(schedule, fsdp2_costs(schedule, {.unit_gather = 5}),
               {{"backward.all_gather.u0", "28-33"},
                {"backward.reduce_scatter.u2", "28-33"},
                {"backward.compute.u1", "28-34"},
                {"backward.reduce_scatter.u1", "34-39"},
                {"backward.compute.u0", "34-40"},
                {"backward.reduce_scatter.u0", "40-45"},
                {"backward.reduce_scatter.root", "45-46"}},
               46);
}

TEST_CASE("HSDP ends at 43: the all-reduces have their own communicator and queue at the end") {
  // All-reduce 4 each, after the reduce-scatters 21-23, 27-29, 33-35, 35-36 of FSDP2.
  const Schedule schedule = fsdp2({.all_reduce = true});
  check_events(schedule, fsdp2_costs(schedule),
               {{"backward.reduce_scatter.u2", "21-23"},
                {"backward.all_reduce.u2", "23-27"},
                {"backward.all_reduce.u1", "29-33"},
                {"backward.all_reduce.u0", "35-39"},
                {"backward.all_reduce.root", "39-43"}},
               43);
}

TEST_CASE("A span says what it waited for last: its stream, a wait, its communicator") {
  const Schedule schedule = fsdp2({});
  in_both_engines([&](Engine& engine) {
    const Timeline timeline = engine.run(schedule, fsdp2_costs(schedule), {.programs = {0}});
    const auto cause = [&](const Span& of) {
      return op_names(schedule, schedule.roles[0].steps[0])[static_cast<std::size_t>(of.cause)];
    };
    CHECK(span(schedule, timeline, "forward.all_gather.root").bound == Bound::start);
    // The copy-out (no time) is what the unit's kernels follow on their stream; it waited itself.
    const Span copy_out = span(schedule, timeline, "forward.copy_out.u0");
    CHECK(copy_out.bound == Bound::wait);
    CHECK(cause(copy_out) == "forward.all_gather.u0");
    const Span second = span(schedule, timeline, "forward.copy_out.u1");
    CHECK(second.bound == Bound::stream);
    CHECK(cause(second) == "forward.compute.u0");
    const Span queued = span(schedule, timeline, "backward.all_gather.u0");
    CHECK(queued.bound == Bound::communicator);
    CHECK(cause(queued) == "backward.reduce_scatter.u2");
  });
}

}  // namespace
}  // namespace stepcast::testing
