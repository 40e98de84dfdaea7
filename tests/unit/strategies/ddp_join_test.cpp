// join(): ranks out of data shadow the collectives of those at work.

#include <doctest/doctest.h>

#include "base/error.hpp"
#include "tests/unit/strategies/ddp_grid.hpp"
#include "tests/unit/strategies/four_layers.hpp"
#include "tests/unit/strategies/schedule_golden.hpp"
#include "tests/unit/strategies/worked.hpp"

namespace stepcast {
namespace {

using testing::bytes_of_each;
using testing::count_of;
using testing::four_layer_cost;
using testing::ops_of;

TrainingStep four_layers(int early) {
  TrainingStep step = testing::four_layers(StrategyKind::ddp);
  step.strategy.join_early_ranks = early;
  return step;
}

TEST_CASE("join costs two all-reduces of one number a forward, even before a rank has joined") {
  const Schedule schedule = build_schedule(four_layers(0));
  testing::check_sound(schedule);
  REQUIRE(schedule.roles.size() == 1);
  CHECK(bytes_of_each(ops_of(schedule), "join_count") == std::vector<Bytes>{4});
  CHECK(bytes_of_each(ops_of(schedule), "join_sync") == std::vector<Bytes>{4});
  CHECK(count_of(ops_of(schedule), "host_wait") == 0);
}

TEST_CASE("ranks that have joined reduce a bucket of zeros for each, and do nothing else") {
  const Schedule schedule = build_schedule(four_layers(3));
  testing::check_sound(schedule);
  testing::check_golden(schedule, "ddp-join");
  REQUIRE(schedule.roles.size() == 2);
  CHECK(schedule.roles[0].rank_count == 5);
  CHECK(schedule.roles[1].name == Name("joined"));
  CHECK(schedule.roles[1].first_rank == 5);
  const std::vector<Op>& joined = ops_of(schedule, "steady", 1);
  CHECK(bytes_of_each(joined, "all_reduce") == std::vector<Bytes>{10 * mib, 30 * mib});
  CHECK(count_of(joined, "host_wait") == 2);  // it reads both numbers
  CHECK(count_of(joined, "adamw") == 0);
  for (auto& engine : testing::both_engines()) {
    const testing::Events events(*engine, schedule, four_layer_cost);
    events.check("backward.all_reduce.bucket0", 12, 17);  // as without the joined ranks
    events.check("backward.all_reduce.bucket1", 24, 39);
  }
}

TEST_CASE("a rank that has joined holds its state, and all buckets once more as zeros") {
  const std::vector<RoleLedger> ledgers = memory_ledger(build_schedule(four_layers(3)));
  REQUIRE(ledgers.size() == 2);
  // fp32: parameters 40, moments 80, buckets 40 MiB; the zeros 40 more
  CHECK(ledgers[1].persistent == 160 * mib);
  CHECK(ledgers[1].peak.total == 200 * mib);
}

TEST_CASE("dividing by the ranks at work makes the host wait before the first copy-in") {
  TrainingStep step = four_layers(3);
  step.strategy.join_divides_by_initial_world_size = false;
  step.accumulation = 2;
  const Schedule schedule = build_schedule(step);
  testing::check_sound(schedule);
  CHECK(count_of(ops_of(schedule), "host_wait") == 1);  // of the reduced micro-batch only
}

TEST_CASE("join with find_unused_parameters, hooks and accumulation is sound") {
  for (const CommHook hook : {CommHook::none, CommHook::fp16_compress, CommHook::power_sgd}) {
    for (const AccumulationSync sync : {AccumulationSync::last, AccumulationSync::every}) {
      TrainingStep step = four_layers(2);
      step.strategy.find_unused_parameters = true;
      step.strategy.comm_hook = hook;
      step.strategy.accumulation_sync = sync;
      step.accumulation = 3;
      const Schedule schedule = build_schedule(step);
      testing::check_sound(schedule);
      const std::size_t reductions = sync == AccumulationSync::last ? 1 : 3;
      CHECK(bytes_of_each(ops_of(schedule, "steady", 1), "join_count").size() == 3);
      CHECK(bytes_of_each(ops_of(schedule, "steady", 1), "used_map").size() == reductions);
    }
  }
}

TEST_CASE("one rank is still at work") {
  CHECK_THROWS_WITH_AS(build_schedule(four_layers(8)),
                       "join_early_ranks: 8 is out of range; accepted: 0 to 7, as one rank is "
                       "still at work",
                       InputError);
}

}  // namespace
}  // namespace stepcast
