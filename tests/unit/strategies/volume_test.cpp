// E-18: bytes each rank sends in one step, counted on the schedule itself by ring counting.
// Ψ = 7e9, W = 8, S = 14 GB in 16 bits: an all-gather or reduce-scatter sends 7/8 S = 12.25 GB, an
// all-reduce 24.5 GB.

#include <doctest/doctest.h>

#include "sim/strategies/strategy.hpp"

namespace stepcast {
namespace {

TrainingStep seven_billion(StrategyKind kind, const char* recipe, int micro_batches) {
  std::vector<Parameter> tensors;
  for (int i = 0; i < 100; ++i) {
    tensors.push_back({Name("t" + std::to_string(i)), {70'000, 1'000}});  // rows divide by 8
  }
  TrainingStep step;
  step.model = model_of_tensors(tensors);
  step.strategy.kind = kind;
  step.precision = precision_recipe(recipe);
  const bool shards = kind == StrategyKind::fsdp1 || kind == StrategyKind::fsdp2;
  step.mesh = shards ? Mesh{1, 8} : Mesh{8, 1};
  step.accumulation = micro_batches;
  return step;
}

struct Sent {
  double shard = 0;  // GB a rank on the shard communicator (and on DDP's)
  double replicate = 0;
};

Sent sent_by(const TrainingStep& step) {
  const Schedule schedule = build_schedule(step);
  Sent sent;
  for (const Op& op : schedule.roles[0].steps.back().ops) {
    if (op.kind != OpKind::collective) continue;
    const Axis axis = schedule.communicators[static_cast<std::size_t>(op.comm)].axis;
    const double gb = ring_bytes_sent(op, step.mesh.size(axis)) / 1e9;
    (axis == Axis::replicate ? sent.replicate : sent.shard) += gb;
  }
  return sent;
}

TEST_CASE("E-18: DDP sends 24.5 GB in 16 bits, 49 in fp32, four times that when it always syncs") {
  CHECK(sent_by(seven_billion(StrategyKind::ddp, "bf16-master", 1)).shard == doctest::Approx(24.5));
  CHECK(sent_by(seven_billion(StrategyKind::ddp, "amp-bf16", 1)).shard == doctest::Approx(49));
  CHECK(sent_by(seven_billion(StrategyKind::ddp, "bf16-master", 4)).shard == doctest::Approx(24.5));
  TrainingStep every = seven_billion(StrategyKind::ddp, "bf16-master", 4);
  every.strategy.accumulation_sync = AccumulationSync::every;
  CHECK(sent_by(every).shard == doctest::Approx(98));
}

TEST_CASE("E-18: FSDP2 sends 36.75 GB in 16 bits, 49 with fp32 reduction: as much as fp32 DDP") {
  const auto fsdp = [](const char* recipe, int m) {
    return seven_billion(StrategyKind::fsdp2, recipe, m);
  };
  CHECK(sent_by(fsdp("bf16-mixed-reduce-bf16", 1)).shard == doctest::Approx(36.75));
  CHECK(sent_by(fsdp("bf16-mixed", 1)).shard == doctest::Approx(49));
  CHECK(sent_by(fsdp("bf16-mixed-reduce-bf16", 4)).shard == doctest::Approx(110.25));
  TrainingStep every = fsdp("bf16-mixed-reduce-bf16", 4);
  every.strategy.accumulation_sync = AccumulationSync::every;
  CHECK(sent_by(every).shard == doctest::Approx(147));
}

TEST_CASE("E-18: FSDP2 that keeps parameters after forward sends 24.5 GB, 61.25 over 4, or 24.5") {
  TrainingStep keep = seven_billion(StrategyKind::fsdp2, "bf16-mixed-reduce-bf16", 1);
  keep.strategy.reshard_after_forward = false;
  CHECK(sent_by(keep).shard == doctest::Approx(24.5));
  keep.accumulation = 4;
  CHECK(sent_by(keep).shard == doctest::Approx(61.25));
  keep.strategy.reshard_after_backward = false;
  CHECK(sent_by(keep).shard == doctest::Approx(24.5));
}

TEST_CASE("E-18: FSDP1's FULL_SHARD and SHARD_GRAD_OP, one and four micro-batches") {
  const auto fsdp = [](ShardingStrategy sharding, const char* recipe, int m, bool every) {
    TrainingStep step = seven_billion(StrategyKind::fsdp1, recipe, m);
    step.strategy.sharding = sharding;
    step.strategy.accumulation_sync = every ? AccumulationSync::every : AccumulationSync::last;
    return sent_by(step).shard;
  };
  constexpr auto full = ShardingStrategy::full_shard;
  constexpr auto grad = ShardingStrategy::shard_grad_op;
  const char* bf16 = "bf16-mixed-reduce-bf16";
  CHECK(fsdp(full, bf16, 1, false) == doctest::Approx(36.75));
  CHECK(fsdp(full, "bf16-mixed", 1, false) == doctest::Approx(49));
  CHECK(fsdp(full, bf16, 4, true) == doctest::Approx(147));
  CHECK(fsdp(full, bf16, 4, false) == doctest::Approx(110.25));
  CHECK(fsdp(grad, bf16, 1, false) == doctest::Approx(24.5));
  CHECK(fsdp(grad, "bf16-mixed", 1, false) == doctest::Approx(36.75));
  CHECK(fsdp(grad, bf16, 4, true) == doctest::Approx(98));
  CHECK(fsdp(grad, bf16, 4, false) == doctest::Approx(24.5));
}

TEST_CASE("E-18: ZeRO-1 and ZeRO-2 all-reduce whole buckets by default, reduce to owners if told") {
  const auto zero = [](StrategyKind kind, int m, bool all_reduce) {
    TrainingStep step = seven_billion(kind, "bf16-master", m);
    step.strategy.multi_rank_all_reduce = all_reduce;
    return sent_by(step).shard;
  };
  CHECK(zero(StrategyKind::zero1, 1, true) == doctest::Approx(36.75));
  CHECK(zero(StrategyKind::zero1, 4, true) == doctest::Approx(36.75));
  CHECK(zero(StrategyKind::zero2, 1, true) == doctest::Approx(36.75));
  CHECK(zero(StrategyKind::zero2, 4, true) == doctest::Approx(110.25));
  CHECK(zero(StrategyKind::zero2, 1, false) == doctest::Approx(24.5));
  CHECK(zero(StrategyKind::zero2, 4, false) == doctest::Approx(61.25));
}

TEST_CASE("E-18: HSDP adds 2(R-1)/R of a 1.75 GB shard between groups, twice that in fp32") {
  for (const auto& [groups, inter] : {std::pair{2, 1.75}, {4, 2.625}, {8, 3.0625}}) {
    for (const bool fp32 : {false, true}) {
      TrainingStep step =
          seven_billion(StrategyKind::hsdp, fp32 ? "bf16-mixed" : "bf16-mixed-reduce-bf16", 1);
      step.mesh = {groups, 8};
      const Sent sent = sent_by(step);
      CHECK(sent.shard == doctest::Approx(fp32 ? 49 : 36.75));
      CHECK(sent.replicate == doctest::Approx(fp32 ? 2 * inter : inter));
    }
  }
}

TEST_CASE("HSDP's accumulation flavours: all-reduce always, scatter always, or neither") {
  TrainingStep step = seven_billion(StrategyKind::hsdp, "bf16-mixed-reduce-bf16", 4);
  step.mesh = {2, 8};
  // gathers: 2 a micro-batch = 8 x 12.25 = 98 GB; scatters 12.25 each; all-reduces 1.75 each
  step.strategy.accumulation_sync = AccumulationSync::every;
  CHECK(sent_by(step).shard == doctest::Approx(98 + 4 * 12.25));
  CHECK(sent_by(step).replicate == doctest::Approx(4 * 1.75));
  step.strategy.accumulation_sync = AccumulationSync::reduce_scatter_every;
  CHECK(sent_by(step).shard == doctest::Approx(98 + 4 * 12.25));
  CHECK(sent_by(step).replicate == doctest::Approx(1.75));
  step.strategy.accumulation_sync = AccumulationSync::last;
  CHECK(sent_by(step).shard == doctest::Approx(98 + 12.25));
  CHECK(sent_by(step).replicate == doctest::Approx(1.75));
}

}  // namespace
}  // namespace stepcast
