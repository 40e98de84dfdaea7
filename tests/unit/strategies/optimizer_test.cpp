// The optimizers' traffic (E-30), gradient clipping, and the host's reading of the loss.

#include "sim/strategies/common/optimizer.hpp"

#include <doctest/doctest.h>

#include "tests/unit/strategies/three_units.hpp"
#include "tests/unit/strategies/worked.hpp"

namespace stepcast {
namespace {

Bytes traffic(const Kernel& kernel) { return kernel.bytes_read + kernel.bytes_written; }

TEST_CASE("E-30: fused AdamW moves 28 B a parameter, 8.17 ms of 7e9/8 at 3.0 TB/s, 65 ms of all") {
  const auto fused = [](std::int64_t elements) {
    return traffic(
        update_kernel(OptimizerKind::adamw_fused, precision_recipe("bf16-mixed"), elements, 1));
  };
  CHECK(fused(875'000'000) == 24'500'000'000);
  CHECK(static_cast<double>(fused(875'000'000)) / 3.0e12 == doctest::Approx(8.1667e-3));
  CHECK(static_cast<double>(fused(7'000'000'000)) / 3.0e12 == doctest::Approx(65.333e-3));
}

TEST_CASE("each optimizer's bytes, launches and state, 100 tensors of 1,000 elements") {
  struct Row {
    OptimizerKind kind;
    Bytes bytes;  // a parameter
    int launches;
    Bytes fp32_state;
    Bytes master_state;  // bf16 parameters with an fp32 master copy
  };
  // 100 tensors are 3 packs of at most 36.
  const Row rows[] = {{OptimizerKind::adamw_fused, 28, 3, 8, 12},
                      {OptimizerKind::adamw_foreach, 63, 3 * 12, 8, 12},
                      {OptimizerKind::adamw_unfused, 63, 100 * 12, 8, 12},
                      {OptimizerKind::sgd_momentum, 8 + 12 + 12, 3 * 3, 4, 8},
                      {OptimizerKind::sgd, 12, 3, 0, 4}};
  for (const Row& row : rows) {
    CAPTURE(std::string(to_string(row.kind)));
    CHECK(parse_optimizer(std::string(to_string(row.kind))) == row.kind);
    const Kernel kernel = update_kernel(row.kind, precision_recipe("fp32"), 100'000, 100);
    CHECK(traffic(kernel) == row.bytes * 100'000);
    CHECK(kernel.launches == row.launches);
    TrainingStep step;
    step.optimizer = row.kind;
    step.precision = precision_recipe("fp32");
    CHECK(optimizer_state_bytes(step) == row.fp32_state);
    step.precision = precision_recipe("bf16-master");
    CHECK(optimizer_state_bytes(step) == row.master_state);
  }
  // With a master copy: gradient 2, master 4 and moments 8 read; master, moments, parameter
  // written.
  CHECK(traffic(update_kernel(OptimizerKind::adamw_fused, precision_recipe("bf16-master"), 100'000,
                              100)) == 28 * 100'000);
  CHECK(traffic(update_kernel(OptimizerKind::sgd, precision_recipe("bf16-master"), 100'000, 100)) ==
        (2 + 4 + 4 + 2) * 100'000);
  CHECK_THROWS_AS(parse_optimizer("adam"), InputError);
}

TEST_CASE("foreach AdamW holds a temporary as large as its fp32 shard, the for-loop one tensor") {
  const auto temporary = [](OptimizerKind kind) {
    TrainingStep step = testing::units_and_root(3, StrategyKind::fsdp2);
    step.optimizer = kind;
    const Schedule schedule = build_schedule(step);
    CHECK(testing::faults(schedule) == "");
    for (const Buffer& buffer : schedule.buffers) {
      if (buffer.name == Name("optimizer_temporary")) return buffer.bytes;
    }
    return Bytes{0};
  };
  // Blocks of 4 x 64 x 64, 3 x 64 x 128 and two norms of 64; embedding, head and norm: all rows
  // divide by 8.
  const Bytes parameters = 3 * (4 * 64 * 64 + 3 * 64 * 128 + 2 * 64) + 2 * 256 * 64 + 64;
  CHECK(temporary(OptimizerKind::adamw_fused) == 0);
  CHECK(temporary(OptimizerKind::adamw_foreach) == 4 * parameters / 8);
  CHECK(temporary(OptimizerKind::adamw_unfused) == 4 * 256 * 64 / 8);  // embedding or head
}

// Of the steady step's clipping: all-reduces and whose, launches of the two passes over tensors,
// host work.
struct Clip {
  int all_reduces = 0;
  std::string axis;
  int norm_launches = 0;
  int scale_launches = 0;
  int dtensors = 0;
  int host_waits = 0;
  Bytes scaled = 0;

  explicit Clip(const Schedule& schedule) {
    for (const Op& op : schedule.roles[0].steps.back().ops) {
      if (op.phase != Phase::optimizer) continue;
      if (op.kind == OpKind::collective) {
        ++all_reduces;
        CHECK(op.collective == CollectiveKind::all_reduce);
        CHECK(bytes_of(op) == 4);
        axis = to_string(schedule.communicators[static_cast<std::size_t>(op.comm)].axis);
      }
      if (op.verb == Name("gradient_norms")) norm_launches = op.launches;
      if (op.verb == Name("clip_scale")) {
        scale_launches = op.launches;
        scaled = schedule.at_kernels(op.kernels)[0].bytes_written;
      }
      if (op.cost == Name("dtensor_foreach")) dtensors += op.count;
      host_waits += op.kind == OpKind::host_wait;
    }
  }
};

TEST_CASE("clipping: one scalar all-reduce where gradients are sharded, none where they are not") {
  // 3 blocks of 9 tensors, embedding, final norm and head: 30 tensors, one pack.
  const auto clip = [](StrategyKind kind, Mesh mesh,
                       ShardingStrategy sharding = ShardingStrategy::full_shard) {
    TrainingStep step = testing::units_and_root(3, kind);
    REQUIRE(step.model.parameters.size() == 30);
    step.mesh = mesh;
    step.precision = precision_recipe(kind == StrategyKind::ddp ? "amp-bf16" : "bf16-mixed");
    step.strategy.sharding = sharding;
    step.clip_grad_norm = true;
    const Schedule schedule = build_schedule(step);
    CHECK(testing::faults(schedule) == "");
    return Clip(schedule);
  };
  const Bytes parameters = 3 * (4 * 64 * 64 + 3 * 64 * 128 + 2 * 64) + 2 * 256 * 64 + 64;
  const Clip ddp = clip(StrategyKind::ddp, {8, 1});
  CHECK(ddp.all_reduces == 0);
  CHECK(ddp.norm_launches == 2);  // the pack and foreach_norm's second kernel
  CHECK(ddp.scale_launches == 1);
  CHECK(ddp.scaled == 4 * parameters);
  CHECK(ddp.dtensors == 0);

  const Clip fsdp2 = clip(StrategyKind::fsdp2, {1, 8});
  CHECK(fsdp2.all_reduces == 1);
  CHECK(fsdp2.dtensors == 2 * 30);
  CHECK(fsdp2.scaled == 4 * parameters / 8);
  CHECK(clip(StrategyKind::fsdp2, {1, 1}).all_reduces == 0);

  const Clip hsdp = clip(StrategyKind::hsdp, {2, 4});
  CHECK(hsdp.all_reduces == 1);
  CHECK(hsdp.axis == "shard");
  CHECK(hsdp.scaled == 4 * parameters / 4);

  // FSDP1 walks its tensors in Python, a launch each; NO_SHARD uses torch's own foreach.
  const Clip fsdp1 = clip(StrategyKind::fsdp1, {1, 8});
  CHECK(fsdp1.all_reduces == 1);
  CHECK(fsdp1.norm_launches == 30);
  CHECK(fsdp1.scale_launches == 30);
  const Clip no_shard = clip(StrategyKind::fsdp1, {8, 1}, ShardingStrategy::no_shard);
  CHECK(no_shard.all_reduces == 0);
  CHECK(no_shard.scale_launches == 1);
  for (const Clip& any : {ddp, fsdp2, hsdp, fsdp1, no_shard}) CHECK(any.host_waits == 0);
}

TEST_CASE(
    "E-10 (replayed) with clipping: norms 1, all-reduce 2, scale 3, AdamW 4 after the end at 36") {
  TrainingStep step = testing::units_and_root(3, StrategyKind::fsdp2);
  step.clip_grad_norm = true;
  const Schedule schedule = build_schedule(step);
  const testing::UnitCosts units{&schedule};
  const auto cost = [&](const Op& op) {
    if (op.verb == Name("gradient_norms")) return 1.0;
    if (op.verb == Name("norm_all_reduce")) return 2.0;
    if (op.verb == Name("clip_scale")) return 3.0;
    if (op.verb == Name("adamw")) return 4.0;
    return units(op);
  };
  for (auto& engine : testing::both_engines()) {
    const testing::Events e(*engine, schedule, cost);
    e.check("optimizer.gradient_norms", 36, 37);
    e.check("optimizer.norm_all_reduce", 37, 39);
    e.check("optimizer.clip_scale", 39, 42);
    e.check("optimizer.adamw", 42, 46);
    CHECK(e.end() == doctest::Approx(46));
  }
}

TEST_CASE("E-12 (replayed) with loss.item(): the last unit's gather is exposed, 53 instead of 50") {
  TrainingStep step = testing::units_and_root(3, StrategyKind::fsdp2);
  step.sync_after_forward = true;
  const Schedule schedule = build_schedule(step);
  CHECK(testing::faults(schedule) == "");
  for (auto& engine : testing::both_engines()) {
    const testing::Events e(*engine, schedule, testing::UnitCosts{&schedule, 5});
    e.check("forward.compute.head", 19, 20);
    e.check("backward.all_gather.layers.2", 20, 25);  // 16-21 where the host runs ahead
    e.check("backward.compute.head", 20, 22);
    e.check("backward.compute.layers.2", 25, 31);
    e.check("backward.all_gather.layers.1", 25, 30);
    e.check("backward.reduce_scatter.layers.2", 31, 36);
    e.check("backward.all_gather.layers.0", 36, 41);
    e.check("backward.compute.layers.1", 31, 37);
    e.check("backward.reduce_scatter.layers.1", 41, 46);
    e.check("backward.compute.layers.0", 41, 47);
    e.check("backward.reduce_scatter.layers.0", 47, 52);
    CHECK(e.end() == doctest::Approx(53));
  }
}

}  // namespace
}  // namespace stepcast
