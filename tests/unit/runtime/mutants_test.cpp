// Would a wrong schedule be noticed? Every strategy's schedule is broken in every way of mutate.hpp
// and run once, all ranks in one thread, with one seed. Caught is what problems() names, what
// cannot be planned, hangs, reads poison, or ends with other parameters than one rank. A mutant
// that orders every conflicting pair as before (happens_before.hpp) is no mistake and not counted.

#include "tests/unit/runtime/happens_before.hpp"
#include "tests/unit/runtime/mutate.hpp"
#include "tests/unit/runtime/training.hpp"

namespace stepcast {
namespace {

using testing::Case;

std::string how_it_is_caught(const Schedule& mutant, const Case& c) {
  if (!problems(mutant).empty()) return "problems";
  try {
    const Schedule wide = runtime::widened(mutant);
    runtime::Trainer trainer(wide, testing::small_shape(c.tied), testing::training_data(c));
    runtime::ExecuteOptions options;
    options.steps = trainer.executed_steps();
    options.threads = false;
    options.seed = 11;
    runtime::execute(wide, trainer, options);
    return testing::worst_difference(trainer, c) <= 1e-12 ? "" : "numbers";
  } catch (const runtime::Hang&) {
    return "hang";
  } catch (const runtime::PoisonRead&) {
    return "poison";
  } catch (const std::exception&) {
    return "plan";
  }
}

struct Count {
  int all = 0, equivalent = 0, missed = 0;
  std::map<std::string, int> caught;
};

Count count_mutants(const Case& c) {
  const Schedule right = build_schedule(testing::training_step(c));
  REQUIRE(how_it_is_caught(right, c) == "");
  const std::vector<std::string> names = op_names(right, right.roles[0].steps[0]);
  const std::set<std::string> order = testing::HappensBefore(right).ordered(names);
  Count count;
  testing::each_mutant(right, [&](const testing::Mutant& mutant) {
    ++count.all;
    const std::string how = how_it_is_caught(mutant.schedule, c);
    if (!how.empty()) {
      ++count.caught[how];
      return;
    }
    if (mutant.may_be_equivalent) {
      const auto now = op_names(mutant.schedule, mutant.schedule.roles[0].steps[0]);
      if (testing::HappensBefore(mutant.schedule).ordered(now) == order) {
        ++count.equivalent;
        return;
      }
    }
    ++count.missed;
    MESSAGE("missed: " << mutant.what);
  });
  return count;
}

void expect_caught(StrategyKind kind, Mesh mesh,
                   ShardingStrategy sharding = ShardingStrategy::full_shard) {
  Case c;
  c.strategy.kind = kind;
  c.strategy.sharding = sharding;
  c.strategy.reduce_bucket_elements = 150;
  c.strategy.persistence_threshold = 10;
  c.strategy.bucket_cap_mib = 0.001;
  c.mesh = mesh;
  const Count count = count_mutants(c);
  std::string text;
  for (const auto& [how, number] : count.caught) text += " " + how + " " + std::to_string(number);
  const int wrong = count.all - count.equivalent;
  MESSAGE(to_string(kind) << " " << to_string(sharding) << ": " << count.all << " mutants, "
                          << count.equivalent << " equivalent, " << count.missed << " missed;"
                          << text);
  CHECK(wrong > 50);
  CHECK(count.missed <= 0.05 * wrong);
}

TEST_CASE("mutants of DDP are caught") { expect_caught(StrategyKind::ddp, {2, 1}); }
TEST_CASE("mutants of ZeRO-1 are caught") { expect_caught(StrategyKind::zero1, {2, 1}); }
TEST_CASE("mutants of ZeRO-2 are caught") { expect_caught(StrategyKind::zero2, {2, 1}); }
TEST_CASE("mutants of ZeRO-3 are caught") { expect_caught(StrategyKind::zero3, {1, 2}); }
TEST_CASE("mutants of FSDP1 are caught") {
  expect_caught(StrategyKind::fsdp1, {1, 2});
  expect_caught(StrategyKind::fsdp1, {1, 2}, ShardingStrategy::shard_grad_op);
  expect_caught(StrategyKind::fsdp1, {2, 1}, ShardingStrategy::no_shard);
  expect_caught(StrategyKind::fsdp1, {2, 2}, ShardingStrategy::hybrid_shard);
}
TEST_CASE("mutants of FSDP2 are caught") { expect_caught(StrategyKind::fsdp2, {1, 2}); }
TEST_CASE("mutants of HSDP are caught") { expect_caught(StrategyKind::hsdp, {2, 2}); }

}  // namespace
}  // namespace stepcast
