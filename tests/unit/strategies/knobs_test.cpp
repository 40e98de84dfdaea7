// Knobs of FSDP1 and ZeRO by hand, and every knob of every sharding strategy on odd world sizes.

#include <doctest/doctest.h>

#include <functional>

#include "sim/memory/ledger.hpp"
#include "tests/unit/strategies/three_units.hpp"
#include "tests/unit/strategies/worked.hpp"

namespace stepcast {
namespace {

int gathers(const Schedule& schedule) {
  int count = 0;
  for (const Op& op : schedule.roles[0].steps.back().ops) {
    count += op.kind == OpKind::collective && op.collective == CollectiveKind::all_gather;
  }
  return count;
}

TEST_CASE("FSDP1: a checkpoint around the unit gathers it a third time, 47 instead of 45") {
  TrainingStep step = testing::units_and_root(3, StrategyKind::fsdp1);
  step.workload.checkpointing = Checkpointing::full;
  step.strategy.limit_all_gathers = false;
  const auto cost_of = [](const Schedule& schedule) {
    return [costs = testing::UnitCosts{&schedule}](const Op& op) {
      return op.verb == Name("recompute") ? 3.0 : costs(op);
    };
  };
  const Schedule inside = build_schedule(step);
  step.strategy.checkpoint_outside_unit = true;
  const Schedule outside = build_schedule(step);
  CHECK(testing::faults(outside) == "");
  CHECK(gathers(inside) == 7);
  CHECK(gathers(outside) == 10);
  for (auto& engine : testing::both_engines()) {
    const testing::Events in(*engine, inside, cost_of(inside));
    in.check("backward.recompute.layers.1", 24, 27);
    in.check("backward.compute.layers.1", 27, 33);
    CHECK(in.end() == doctest::Approx(45));
    const testing::Events out(*engine, outside, cost_of(outside));
    out.check("backward.recompute.layers.2", 15, 18);
    out.check("backward.compute.layers.2", 18, 24);
    out.check("backward.reduce_scatter.layers.2", 24, 26);
    out.check("backward.recompute.layers.1", 24, 27);
    out.check("backward.compute.layers.1", 28, 34);  // its gather for backward: 26-28, behind RS2
    out.check("backward.reduce_scatter.layers.1", 34, 36);
    out.check("backward.recompute.layers.0", 34, 37);
    out.check("backward.compute.layers.0", 38, 44);
    CHECK(out.end() == doctest::Approx(47));
  }
  // FSDP2 skips its hooks in the recomputation.
  step.strategy.kind = StrategyKind::fsdp2;
  const Schedule fsdp2 = build_schedule(step);
  CHECK(gathers(fsdp2) == 7);
  CHECK(fsdp2.notes.size() == 1);
  step.workload.checkpointing = Checkpointing::none;
  CHECK_THROWS_AS(build_schedule(step), InputError);
}

// 7e9 parameters in 100 tensors of 70 M, none kept gathered, on 8 ranks.
TrainingStep hundred_tensors() {
  std::vector<Parameter> tensors;
  for (int i = 0; i < 100; ++i) tensors.push_back({Name("t" + std::to_string(i)), {70'000'000}});
  TrainingStep step;
  step.model = model_of_tensors(tensors);
  step.strategy.kind = StrategyKind::zero3;
  step.strategy.max_reuse_distance = 0;
  step.precision = precision_recipe("bf16-master");
  step.mesh = {1, 8};
  return step;
}

TEST_CASE("hpZ: 12.25 GB between all ranks, 10.5 GB within groups of 4, 3.5 GB of second shards") {
  TrainingStep step = hundred_tensors();
  step.mesh = {2, 4};
  step.strategy.hpz_group = 4;
  const auto gathered = [](const Schedule& schedule, Axis axis) {
    double gb = 0;
    for (const Op& op : schedule.roles[0].steps.back().ops) {
      if (op.kind != OpKind::collective || op.collective != CollectiveKind::all_gather) continue;
      if (schedule.communicators[static_cast<std::size_t>(op.comm)].axis != axis) continue;
      gb += ring_bytes_sent(op, schedule.mesh.size(axis)) / 1e9;
    }
    return gb;
  };
  const Schedule schedule = build_schedule(step);
  CHECK(testing::faults(schedule) == "");
  CHECK(memory_ledger(schedule).at(0).growth == 0);
  CHECK(gathered(schedule, Axis::world) == doctest::Approx(7.0 / 8 * 14));
  CHECK(gathered(schedule, Axis::shard) == doctest::Approx(3.0 / 4 * 14));
  Bytes now = 0;
  Bytes most = 0;
  int blocked = 0;
  for (const Op& op : schedule.roles[0].steps.back().ops) {
    blocked += op.kind == OpKind::host_wait && op.rule == Name("zero++.hpz-secondary-shard");
    if (op.kind != OpKind::alloc && op.kind != OpKind::free) continue;
    const Buffer& buffer = schedule.buffers[static_cast<std::size_t>(op.buffer)];
    if (buffer.name.str().rfind("secondary.", 0) != 0) continue;
    now += op.kind == OpKind::alloc ? buffer.bytes : -buffer.bytes;
    most = std::max(most, now);
  }
  CHECK(most == 3'500'000'000);
  CHECK(now == 0);
  CHECK(blocked == 100);  // once a parameter
  // Four micro-batches: only the first gathers globally.
  step.accumulation = 4;
  const Schedule four = build_schedule(step);
  CHECK(gathered(four, Axis::world) == doctest::Approx(7.0 / 8 * 14));
  CHECK(gathered(four, Axis::shard) == doctest::Approx(7 * 3.0 / 4 * 14));
  step.strategy.hpz_group = 3;
  CHECK_THROWS_AS(build_schedule(step), InputError);
}

TEST_CASE("sub_group_size: 875 M elements of a rank in groups of 1e8 are nine AdamW kernels") {
  TrainingStep step = hundred_tensors();
  step.strategy.sub_group_elements = 100'000'000;
  const Schedule schedule = build_schedule(step);
  CHECK(testing::faults(schedule) == "");
  int kernels = 0;
  Bytes bytes = 0, unscaled = 0;
  for (const Op& op : schedule.roles[0].steps.back().ops) {
    if (op.verb == Name("unscale")) {
      const Kernel& kernel = schedule.at_kernels(op.kernels)[0];
      unscaled += kernel.bytes_read + kernel.bytes_written;
    }
    if (op.verb != Name("adamw_fused")) continue;
    ++kernels;
    const Kernel& kernel = schedule.at_kernels(op.kernels)[0];
    bytes += kernel.bytes_read + kernel.bytes_written;
  }
  CHECK(kernels == 9);
  CHECK(bytes == 24'500'000'000);        // E-30 in ZeRO's step
  CHECK(unscaled == 8ll * 875'000'000);  // the fp32 gradient once over
  Bytes fp32 = 0;
  for (const Buffer& buffer : schedule.buffers) {
    if (buffer.name == Name("fp32_gradient")) fp32 = buffer.bytes;
  }
  CHECK(fp32 == 400'000'000);
}

TEST_CASE("reduce_scatter false all-reduces the bucket itself: the same bytes, no flat copy") {
  TrainingStep step = hundred_tensors();
  step.strategy.kind = StrategyKind::zero2;
  step.mesh = {8, 1};
  const auto reduced = [](const Schedule& schedule, int& copies) {
    double gb = 0;
    for (const Op& op : schedule.roles[0].steps.back().ops) {
      copies += op.verb == Name("flatten") && op.phase == Phase::backward;
      if (op.kind != OpKind::collective || op.phase != Phase::backward) continue;
      CHECK(op.collective == CollectiveKind::all_reduce);
      gb += static_cast<double>(bytes_of(op)) / 1e9;
    }
    return gb;
  };
  int with = 0;
  int without = 0;
  CHECK(reduced(build_schedule(step), with) == doctest::Approx(14));
  step.strategy.reduce_scatter = false;
  const Schedule schedule = build_schedule(step);
  CHECK(testing::faults(schedule) == "");
  CHECK(reduced(schedule, without) == doctest::Approx(14));
  CHECK(with == 15);  // 7 tensors of 70 M in a bucket of 5e8
  CHECK(without == 0);
}

using Knob = std::function<void(TrainingStep&)>;

void check_sound(StrategyKind kind, const std::vector<Mesh>& meshes, const Knob& knob) {
  for (const Mesh mesh : meshes) {
    for (const int accumulation : {1, 3}) {
      for (const bool first : {false, true}) {
        TrainingStep step = testing::units_and_root(3, kind);
        step.precision = precision_recipe(default_precision(kind));
        step.mesh = mesh;
        step.accumulation = accumulation;
        step.first_step = first;
        step.workload.checkpointing = Checkpointing::full;
        knob(step);
        const Schedule schedule = build_schedule(step);
        CAPTURE(std::string(to_string(kind)));
        CAPTURE(mesh.replicate);
        CAPTURE(mesh.shard);
        CAPTURE(accumulation);
        CAPTURE(first);
        CHECK(testing::faults(schedule) == "");
        CHECK(memory_ledger(schedule).at(0).growth == 0);
      }
    }
  }
}

TEST_CASE("every common knob is sound under every strategy on 2, 3, 8 and 12 ranks") {
  std::vector<Knob> knobs{[](TrainingStep& s) { s.clip_grad_norm = true; },
                          [](TrainingStep& s) { s.sync_after_forward = true; }};
  for (const auto kind : {OptimizerKind::adamw_foreach, OptimizerKind::adamw_unfused,
                          OptimizerKind::sgd_momentum, OptimizerKind::sgd}) {
    knobs.push_back([kind](TrainingStep& s) { s.optimizer = kind; });
  }
  const std::vector<Mesh> replicated{{2, 1}, {3, 1}, {8, 1}, {12, 1}};
  const std::vector<Mesh> sharded{{1, 2}, {1, 3}, {1, 8}, {1, 12}};
  const std::vector<Mesh> hybrid{{2, 1}, {3, 1}, {2, 4}, {4, 3}};
  for (const Knob& knob : knobs) {
    for (const auto kind : {StrategyKind::ddp, StrategyKind::zero1, StrategyKind::zero2}) {
      check_sound(kind, replicated, knob);
    }
    for (const auto kind : {StrategyKind::zero3, StrategyKind::fsdp1, StrategyKind::fsdp2}) {
      check_sound(kind, sharded, knob);
    }
    check_sound(StrategyKind::hsdp, hybrid, knob);
    check_sound(StrategyKind::fsdp1, hybrid, [&](TrainingStep& s) {
      s.strategy.sharding = ShardingStrategy::hybrid_shard;
      knob(s);
    });
  }
}

TEST_CASE("every sharding knob is sound on 2, 3, 8 and 12 ranks") {
  const std::vector<Mesh> sharded{{1, 2}, {1, 3}, {1, 8}, {1, 12}};
  const std::vector<Mesh> hybrid{{2, 1}, {1, 3}, {2, 4}, {4, 3}};
  const std::vector<Knob> fully_shard{
      [](TrainingStep& s) { s.strategy.forward_prefetch_units = 2; },
      [](TrainingStep& s) { s.strategy.backward_prefetch_units = 2; },
      [](TrainingStep& s) { s.strategy.keep_last_block = true; },
      [](TrainingStep& s) {
        s.strategy.keep_last_block = true;
        s.strategy.reshard_after_backward = false;
      },
      [](TrainingStep& s) {
        s.strategy.wrap = WrapPolicy::torchtitan;
        s.strategy.unshard_embedding_in_backward = false;
        s.strategy.accumulation_sync = AccumulationSync::every;
      }};
  for (const Knob& knob : fully_shard) {
    check_sound(StrategyKind::fsdp2, sharded, knob);
    check_sound(StrategyKind::hsdp, hybrid, knob);
  }
  check_sound(StrategyKind::fsdp2, {{2, 4}, {4, 2}, {4, 3}, {2, 6}}, [](TrainingStep& s) {
    s.strategy.reshard_group = s.mesh.shard;
    s.strategy.forward_prefetch_units = s.mesh.shard == 4 ? 2 : 0;
  });
  for (const bool limiter : {true, false}) {
    for (const auto prefetch :
         {BackwardPrefetchMode::pre, BackwardPrefetchMode::post, BackwardPrefetchMode::none}) {
      const auto outside = [&](TrainingStep& s) {
        s.strategy.checkpoint_outside_unit = true;
        s.strategy.limit_all_gathers = limiter;
        s.strategy.backward_prefetch = prefetch;
      };
      check_sound(StrategyKind::fsdp1, sharded, outside);
      check_sound(StrategyKind::fsdp1, sharded, [&](TrainingStep& s) {
        outside(s);
        s.strategy.sharding = ShardingStrategy::shard_grad_op;
      });
    }
  }
  check_sound(StrategyKind::zero3, {{2, 4}, {4, 2}, {4, 3}, {2, 6}}, [](TrainingStep& s) {
    s.strategy.hpz_group = s.mesh.shard;
    s.strategy.max_reuse_distance = 0;
    s.strategy.persistence_threshold = 0;
    s.strategy.prefetch_bucket_elements = 5'000;
  });
  check_sound(StrategyKind::zero3, sharded,
              [](TrainingStep& s) { s.strategy.sub_group_elements = 1000; });
  for (const auto kind : {StrategyKind::zero1, StrategyKind::zero2}) {
    for (const bool overlap : {true, false}) {
      check_sound(kind, {{2, 1}, {3, 1}, {8, 1}, {12, 1}}, [&](TrainingStep& s) {
        s.strategy.reduce_scatter = false;
        s.strategy.overlap_comm = overlap;
        s.strategy.reduce_bucket_elements = 10'000;
      });
    }
  }
}

}  // namespace
}  // namespace stepcast
