// The GPU executor and its trainer on the fake: after five steps every strategy holds the
// parameters of one rank on the whole batch. Streams run as late and as oddly as a seed makes them,
// so this is also the proof of the executor's events, memory and order.

#include "runtime/cuda/gpu_trainer.hpp"
#include "tests/unit/cuda/fake_gpu.hpp"
#include "tests/unit/runtime/training.hpp"

namespace stepcast {
namespace {

using runtime::RankShare;
using testing::Case;
using testing::FakeCluster;
using testing::of;
using testing::proof;

// The largest difference of a rank that is compared from `wanted`.
double trained_on_fake(const Case& c, const runtime::TrainingData& data,
                       const runtime::Trained& wanted, const std::vector<RankShare>& shares = {},
                       std::uint64_t seed = 1, bool in_double = true) {
  Schedule schedule = build_schedule(testing::training_step(c));
  if (in_double) schedule = runtime::widened(std::move(schedule));
  FakeCluster cluster({c.mesh.world_size()}, seed);
  double difference = 0;
  {
    const runtime::GpuTables tables = cluster.process(0);
    runtime::GpuTrainer work(schedule, testing::small_shape(c.tied), data, tables);
    work.compare_with(wanted.parameters, shares);
    const runtime::GpuExecution run =
        runtime::execute_on_gpus(schedule, work, tables, {.steps = work.executed_steps()});
    const auto verdict = work.verdict(run);
    difference = verdict.difference;
    if (in_double && shares.empty()) {
      CHECK(verdict.losses.back() == doctest::Approx(wanted.losses.back()).epsilon(1e-11));
      const bool norms = c.clip || c.strategy.kind == StrategyKind::zero1 ||
                         c.strategy.kind == StrategyKind::zero2 ||
                         c.strategy.kind == StrategyKind::zero3;
      CHECK(verdict.norms.size() == (norms ? wanted.norms.size() : 0));
      for (std::size_t s = 0; s < verdict.norms.size(); ++s) {
        CHECK(verdict.norms[s] == doctest::Approx(wanted.norms[s]).epsilon(1e-10));
      }
    }
    CHECK(run.memory.size() == static_cast<std::size_t>(c.mesh.world_size()));
  }
  CHECK(cluster.alive() == 0);  // nothing is left on the GPUs
  CHECK(cluster.aborted() == 0);
  return difference;
}

double train_on_fake(const Case& c, std::uint64_t seed = 1, bool in_double = true) {
  return trained_on_fake(c, testing::training_data(c), testing::one_rank(c), {}, seed, in_double);
}

// Ranks that do not count alike (runtime/train/reference.hpp).
double train_shares_on_fake(const Case& c, const runtime::TrainingData& data,
                            const std::vector<RankShare>& shares) {
  return trained_on_fake(
      c, data,
      runtime::train_on_one_rank(testing::small_shape(), data, runtime::UpdateRule::adamw, shares),
      shares);
}

TEST_CASE("on GPUs DDP trains as one rank does, on 1, 2, 3 and 4 ranks") {
  for (const int world : {1, 2, 3, 4}) {
    CAPTURE(world);
    CHECK(train_on_fake(of(StrategyKind::ddp, {world, 1})) <= proof);
  }
}

TEST_CASE("on GPUs DDP's first steps and its bucket views train as one rank does") {
  for (const bool view : {false, true}) {
    Case c = of(StrategyKind::ddp, {2, 1}, 1);
    c.strategy.gradient_as_bucket_view = view;
    c.first_step = true;
    CHECK(train_on_fake(c) <= proof);
  }
}

TEST_CASE("on GPUs FSDP2 and HSDP train as one rank does") {
  CHECK(train_on_fake(of(StrategyKind::fsdp2, {1, 1})) <= proof);
  CHECK(train_on_fake(of(StrategyKind::fsdp2, {1, 3})) <= proof);
  CHECK(train_on_fake(of(StrategyKind::hsdp, {2, 2})) <= proof);
}

TEST_CASE("on GPUs FSDP1 trains as one rank does") {
  for (const ShardingStrategy sharding :
       {ShardingStrategy::full_shard, ShardingStrategy::shard_grad_op,
        ShardingStrategy::hybrid_shard}) {
    const bool hybrid = sharding == ShardingStrategy::hybrid_shard;
    Case c = of(StrategyKind::fsdp1, hybrid ? Mesh{2, 2} : Mesh{1, 2});
    c.strategy.sharding = sharding;
    CAPTURE(std::string(to_string(sharding)));
    CHECK(train_on_fake(c) <= proof);
  }
}

TEST_CASE("on GPUs ZeRO-1, 2 and 3 train as one rank does, and take its gradient norms") {
  CHECK(train_on_fake(of(StrategyKind::zero1, {2, 1})) <= proof);
  CHECK(train_on_fake(of(StrategyKind::zero2, {3, 1})) <= proof);
  CHECK(train_on_fake(of(StrategyKind::zero3, {1, 2})) <= proof);
}

TEST_CASE("on GPUs checkpointing, a tied head and every seed's interleaving make no difference") {
  for (const std::uint64_t seed : {1u, 2u, 3u, 4u, 5u, 6u}) {
    Case c = of(seed % 2 == 0 ? StrategyKind::ddp : StrategyKind::fsdp2,
                seed % 2 == 0 ? Mesh{2, 1} : Mesh{1, 2}, 1);
    c.checkpointing = Checkpointing::full;
    c.tied = true;
    CHECK(train_on_fake(c, seed) <= proof);
  }
}

TEST_CASE("on GPUs float32 keeps 1e-6 and bf16 recipes 1e-2 of a tensor's norm") {
  Case c = of(StrategyKind::fsdp2, {1, 2});
  CHECK(train_on_fake(c, 1, false) <= 1e-6);
  c.precision = "bf16-mixed";
  CHECK(train_on_fake(c, 1, false) <= 1e-2);
}

TEST_CASE("on GPUs nn.DataParallel trains as one rank does, its loss on GPU 0 or on each") {
  for (const int world : {1, 2, 3}) {
    for (const bool in_forward : {false, true}) {
      Case c = of(StrategyKind::dp, {world, 1});
      c.strategy.loss_in_forward = in_forward;
      CAPTURE(world);
      CAPTURE(in_forward);
      CHECK(train_on_fake(c) <= proof);
    }
  }
}

TEST_CASE("on GPUs every strategy clips by the norm over all ranks, with AdamW and with SGD") {
  for (Case c : testing::one_of_each()) {
    for (const OptimizerKind optimizer :
         {OptimizerKind::adamw_fused, OptimizerKind::sgd_momentum, OptimizerKind::sgd}) {
      c.clip = true;
      c.optimizer = optimizer;
      CAPTURE(testing::name(c));
      CHECK(train_on_fake(c) <= proof);
    }
  }
}

TEST_CASE("on GPUs SGD's momenta and the unfused optimizers' temporaries lie where they are read") {
  for (const OptimizerKind optimizer :
       {OptimizerKind::sgd_momentum, OptimizerKind::adamw_foreach, OptimizerKind::adamw_unfused}) {
    for (const StrategyKind kind : {StrategyKind::ddp, StrategyKind::zero2}) {
      Case c = of(kind, {2, 1});
      c.optimizer = optimizer;
      c.first_step = true;
      CAPTURE(testing::name(c));
      CHECK(train_on_fake(c) <= proof);
    }
  }
}

TEST_CASE("on GPUs a parameter that one of three ranks does not use gets two thirds of the mean") {
  Case c = of(StrategyKind::ddp, {3, 1});
  c.strategy.unused_parameters = {"*.0.*.bias"};
  c.strategy.unused_on_ranks = {1};
  c.strategy.find_unused_parameters = true;
  std::vector<RankShare> shares = runtime::equal_shares(3);
  shares[1].skips.resize(static_cast<std::size_t>(testing::small_shape().tensors()), false);
  shares[1].skips[2] = shares[1].skips[4] = true;  // block 0's biases
  CHECK(train_shares_on_fake(c, testing::training_data(c), shares) <= proof);
}

TEST_CASE("on GPUs a rank that has run out of data joins, and is not compared") {
  for (const bool initial : {true, false}) {
    Case c = of(StrategyKind::ddp, {4, 1});
    c.strategy.join_early_ranks = 1;
    c.strategy.join_divides_by_initial_world_size = initial;
    std::vector<RankShare> shares(4);
    for (std::size_t r = 0; r < 3; ++r) shares[r].weight = 1.0 / (initial ? 4 : 3);
    CAPTURE(initial);
    CHECK(train_shares_on_fake(c, testing::training_data(c), shares) <= proof);
  }
}

TEST_CASE("on GPUs a batch that is not full counts as the mathematics says") {
  const auto uneven = [](const Case& c) {
    runtime::TrainingData data = testing::training_data(c);
    for (std::size_t i = 0; i < data.of_rank[1].size(); ++i) {
      if (i % 36 >= 12) data.of_rank[1][i] = runtime::no_sample;
    }
    return data;
  };
  const Case ddp = of(StrategyKind::ddp, {2, 1}, 1);
  CHECK(train_shares_on_fake(ddp, uneven(ddp), {{0.5, {}}, {0.5, {}}}) <= proof);
  const Case dp = of(StrategyKind::dp, {2, 1}, 1);  // one mean over the gathered batch
  CHECK(train_shares_on_fake(dp, uneven(dp), {{0.75, {}}, {0.25, {}}}) <= proof);
}

TEST_CASE("on GPUs DDP's hooks, fp16 scaling and a large batch go the way of the CPU executor") {
  Case c = of(StrategyKind::ddp, {2, 1});
  c.strategy.comm_hook = CommHook::allreduce;
  CHECK(train_on_fake(c) <= proof);
  c.strategy.comm_hook = CommHook::none;
  c.precision = "amp-fp16";
  c.clip = true;
  CHECK(train_on_fake(c, 1, false) <= 1e-2);
}

TEST_CASE("on GPUs who reads freed memory is named") {
  Schedule s = build_schedule(testing::training_step(of(StrategyKind::fsdp2, {1, 2}, 1)));
  s = runtime::widened(std::move(s));
  // The wait of the first layer's computation on its gather is left out: it reads what nobody
  // wrote.
  auto& ops = s.roles[0].steps[0].ops;
  const auto wait = std::find_if(ops.begin(), ops.end(), [&](const Op& op) {
    return op.kind == OpKind::stream_wait && op.phase == Phase::forward && op.stream == 0;
  });
  REQUIRE(wait != ops.end());
  wait->waits.count = 0;
  std::string said;
  for (std::uint64_t seed = 1; seed <= 8 && said.empty(); ++seed) {
    FakeCluster cluster({2}, seed);
    const runtime::GpuTables tables = cluster.process(0);
    runtime::GpuTrainer work(s, testing::small_shape(),
                             testing::training_data(of(StrategyKind::fsdp2, {1, 2}, 1)), tables);
    try {
      runtime::execute_on_gpus(s, work, tables, {.steps = work.executed_steps()});
    } catch (const std::runtime_error& error) {
      said = error.what();
    }
  }
  CHECK(said.find("reads memory that was freed or never written") != std::string::npos);
}

}  // namespace
}  // namespace stepcast
