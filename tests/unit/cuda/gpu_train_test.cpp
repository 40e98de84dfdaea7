// The GPU executor and its trainer on the fake: after five steps every strategy holds the
// parameters of one rank on the whole batch. Streams run as late and as oddly as a seed makes them,
// so this is also the proof of the executor's events, memory and order.

#include "runtime/cuda/gpu_trainer.hpp"
#include "tests/unit/cuda/fake_gpu.hpp"
#include "tests/unit/runtime/training.hpp"

namespace stepcast {
namespace {

using testing::Case;
using testing::FakeCluster;
using testing::of;
using testing::proof;

double train_on_fake(const Case& c, std::uint64_t seed = 1, bool in_double = true) {
  Schedule schedule = build_schedule(testing::training_step(c));
  if (in_double) schedule = runtime::widened(std::move(schedule));
  FakeCluster cluster({c.mesh.world_size()}, seed);
  double difference = 0;
  {
    const runtime::GpuTables tables = cluster.process(0);
    runtime::GpuTrainer work(schedule, testing::small_shape(c.tied), testing::training_data(c),
                             tables);
    work.compare_with(testing::one_rank(c).parameters);
    const runtime::GpuExecution run =
        runtime::execute_on_gpus(schedule, work, tables, {.steps = work.executed_steps()});
    const auto verdict = work.verdict(run);
    difference = verdict.difference;
    if (in_double) {
      CHECK(verdict.losses.back() ==
            doctest::Approx(testing::one_rank(c).losses.back()).epsilon(1e-11));
      for (std::size_t s = 0; s < verdict.norms.size(); ++s) {
        CHECK(verdict.norms[s] == doctest::Approx(testing::one_rank(c).norms[s]).epsilon(1e-10));
      }
    }
    CHECK(run.memory.size() == static_cast<std::size_t>(c.mesh.world_size()));
  }
  CHECK(cluster.alive() == 0);  // nothing is left on the GPUs
  CHECK(cluster.aborted() == 0);
  return difference;
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

TEST_CASE("on GPUs what is not trained there yet is refused by name") {
  Case c = of(StrategyKind::ddp, {2, 1}, 1);
  c.clip = true;
  const Schedule s = build_schedule(testing::training_step(c));
  FakeCluster cluster({2});
  const runtime::GpuTables tables = cluster.process(0);
  std::string said;
  try {
    runtime::GpuTrainer work(s, testing::small_shape(), testing::training_data(c), tables);
  } catch (const std::runtime_error& error) {
    said = error.what();
  }
  CAPTURE(said);
  CHECK(said.find("optimizer.") == 0);
  CHECK(said.find(" is not trained on GPUs yet") != std::string::npos);
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
