// After five AdamW steps every strategy holds the parameters of one rank on the whole batch: every
// world size, accumulation and checkpointing. What options change is in train_options_test.cpp.

#include "sim/memory/ledger.hpp"
#include "tests/unit/runtime/training.hpp"

namespace stepcast {
namespace {

using testing::Case;
using testing::name;
using testing::of;
using testing::one_of_each;
using testing::proof;
using testing::train;

constexpr double single = 1e-6;  // of the tensor's norm, float32

void expect_equal(Case c) {
  for (const int accumulation : {1, 3}) {
    for (const Checkpointing checkpointing : {Checkpointing::none, Checkpointing::full}) {
      c.accumulation = accumulation;
      c.checkpointing = checkpointing;
      CAPTURE(name(c));
      CHECK(train(c) <= proof);
      CHECK(train(c, true, 1, false) <= single);
    }
  }
}

constexpr int worlds[] = {1, 2, 3, 4, 8};

TEST_CASE("nn.DataParallel trains as one rank does, wherever the loss is computed") {
  for (const bool loss_in_forward : {false, true}) {
    for (const int world : worlds) {
      Case c;
      c.strategy.kind = StrategyKind::dp;
      c.strategy.loss_in_forward = loss_in_forward;
      c.mesh = {world, 1};
      expect_equal(c);
    }
  }
}

TEST_CASE("DDP trains as one rank does") {
  for (const int world : worlds) {
    Case c;
    c.mesh = {world, 1};
    c.strategy.bucket_cap_mib = 0.0005;  // 524 bytes: several buckets
    expect_equal(c);
  }
}

TEST_CASE("FSDP2 trains as one rank does") {
  for (const int world : worlds) {
    Case c;
    c.strategy.kind = StrategyKind::fsdp2;
    c.mesh = {1, world};
    expect_equal(c);
  }
}

TEST_CASE("HSDP trains as one rank does") {
  for (const Mesh mesh :
       {Mesh{1, 1}, Mesh{2, 1}, Mesh{1, 2}, Mesh{1, 3}, Mesh{2, 2}, Mesh{4, 2}, Mesh{2, 4}}) {
    Case c;
    c.strategy.kind = StrategyKind::hsdp;
    c.mesh = mesh;
    expect_equal(c);
  }
}

TEST_CASE("FSDP1 trains as one rank does under each sharding strategy") {
  for (const ShardingStrategy sharding :
       {ShardingStrategy::full_shard, ShardingStrategy::shard_grad_op,
        ShardingStrategy::no_shard}) {
    for (const int world : worlds) {
      Case c;
      c.strategy.kind = StrategyKind::fsdp1;
      c.strategy.sharding = sharding;
      c.mesh = sharding == ShardingStrategy::no_shard ? Mesh{world, 1} : Mesh{1, world};
      CAPTURE(std::string(to_string(sharding)));
      expect_equal(c);
    }
  }
}

TEST_CASE("FSDP1's hybrid strategies train as one rank does") {
  for (const ShardingStrategy sharding :
       {ShardingStrategy::hybrid_shard, ShardingStrategy::hybrid_shard_zero2}) {
    for (const Mesh mesh :
         {Mesh{1, 1}, Mesh{2, 1}, Mesh{1, 2}, Mesh{3, 1}, Mesh{2, 2}, Mesh{2, 4}}) {
      Case c;
      c.strategy.kind = StrategyKind::fsdp1;
      c.strategy.sharding = sharding;
      c.mesh = mesh;
      CAPTURE(std::string(to_string(sharding)));
      expect_equal(c);
    }
  }
}

TEST_CASE("ZeRO-1 and ZeRO-2 train as one rank does") {
  for (const StrategyKind kind : {StrategyKind::zero1, StrategyKind::zero2}) {
    for (const int world : worlds) {
      Case c;
      c.strategy.kind = kind;
      c.strategy.reduce_bucket_elements = 150;
      c.mesh = {world, 1};
      expect_equal(c);
    }
  }
}

TEST_CASE("ZeRO-3 trains as one rank does") {
  for (const int world : worlds) {
    Case c;
    c.strategy.kind = StrategyKind::zero3;
    c.strategy.reduce_bucket_elements = 150;
    c.strategy.persistence_threshold = 10;  // the biases stay gathered
    c.strategy.prefetch_bucket_elements = 100;
    c.strategy.max_reuse_distance = 100;
    c.mesh = {1, world};
    expect_equal(c);
  }
}

// ---- Order and precision ------------------------------------------------------------------------

TEST_CASE("no interleaving that a schedule leaves open changes what it computes") {
  for (const Case& c : one_of_each()) {
    CAPTURE(name(c));
    for (std::uint64_t seed = 0; seed < 10; ++seed) CHECK(train(c, false, seed) <= proof);
  }
}

TEST_CASE("a run allocates what the ledger counts") {
  for (const Case& c : one_of_each()) {
    CAPTURE(name(c));
    const Schedule schedule = build_schedule(testing::training_step(c));
    runtime::Trainer trainer(schedule, testing::small_shape(), testing::training_data(c));
    runtime::ExecuteOptions options;
    options.steps = trainer.executed_steps();
    const runtime::Execution run = runtime::execute(schedule, trainer, options);
    const auto ledgers = memory_ledger(schedule);
    for (std::size_t r = 0; r < schedule.roles.size(); ++r) {
      const Role& role = schedule.roles[r];
      for (int i = 0; i < role.rank_count; ++i) {
        CHECK(run.peak[static_cast<std::size_t>(role.rank(i))] == ledgers.at(r).peak.total);
      }
    }
  }
}

TEST_CASE("16-bit recipes: with fp32 parameters or masters within 1 %, all 16 bits within 5 %") {
  for (Case c : one_of_each()) {
    for (const std::string& recipe : precision_recipes_of(c.strategy.kind)) {
      if (recipe == "fp32" || recipe == "tf32") continue;
      c.precision = recipe;
      CAPTURE(name(c));
      CAPTURE(recipe);
      const double difference = train(c, true, 1, false);
      CHECK(difference <= (recipe == "bf16-pure" ? 0.05 : 0.01));
      CHECK(difference > 1e-6);  // it does round
    }
  }
}

}  // namespace
}  // namespace stepcast
