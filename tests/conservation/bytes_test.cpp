// Bytes sent by a rank in a step: the schedules, op by op, against the closed forms.

#include <doctest/doctest.h>

#include "sim/collectives/volume.hpp"
#include "sim/memory/ledger.hpp"
#include "sim/schedule/problems.hpp"
#include "tests/conservation/grid.hpp"

using namespace stepcast;
using namespace stepcast::testing;

namespace {

struct Sent {
  double shard = 0, replicate = 0;  // bytes; the world's communicator counts as `shard`
};

Sent sent_by(const Schedule& schedule) {
  Sent sent;
  for (const Op& op : schedule.roles[0].steps.back().ops) {
    if (op.kind != OpKind::collective || op.phase == Phase::load) continue;
    if (bytes_of(op) <= 64) continue;  // flags and norms
    const Axis axis = schedule.communicators[static_cast<std::size_t>(op.comm)].axis;
    const double bytes = ring_bytes_sent(op, schedule.mesh.size(axis));
    (axis == Axis::replicate ? sent.replicate : sent.shard) += bytes;
  }
  return sent;
}

VolumeOptions options_of(const Cell& cell, const TrainingStep& step, double parameters) {
  VolumeOptions options;
  options.parameters = parameters;
  options.ranks = cell.world;
  options.gather_bytes = static_cast<double>(bytes_per_element(step.precision.gather));
  options.reduce_bytes = static_cast<double>(bytes_per_element(step.precision.reduce));
  options.micro_batches = cell.accumulation;
  options.sync = VolumeSync::last;
  return options;
}

Sent closed_form(const Cell& cell, const TrainingStep& step, double parameters) {
  VolumeOptions options = options_of(cell, step, parameters);
  const auto sent = [&](VolumeStrategy strategy) {
    return Sent{strategy_volume(options, strategy).total(), 0};
  };
  switch (cell.kind) {
    case StrategyKind::ddp: return sent(VolumeStrategy::ddp);
    case StrategyKind::zero1: return sent(VolumeStrategy::zero1);
    case StrategyKind::zero2: options.sync = VolumeSync::every; return sent(VolumeStrategy::zero2);
    case StrategyKind::zero3: options.sync = VolumeSync::every; return sent(VolumeStrategy::zero3);
    case StrategyKind::dp: {
      // A chain of ranks hands all parameters on, and another the sums of gradients back: averaged
      // over the ranks an all-reduce's bytes, in every micro-batch.
      options.sync = VolumeSync::every;
      return sent(VolumeStrategy::ddp);
    }
    case StrategyKind::fsdp1:
      switch (cell.sharding) {
        case ShardingStrategy::full_shard: return sent(VolumeStrategy::full_shard);
        case ShardingStrategy::shard_grad_op: return sent(VolumeStrategy::shard_grad_op);
        case ShardingStrategy::no_shard:  // on the replicas' axis
          return {0, strategy_volume(options, VolumeStrategy::ddp).total()};
        case ShardingStrategy::hybrid_shard: break;
        case ShardingStrategy::hybrid_shard_zero2: {
          options.ranks = step.mesh.shard;
          const double inter = hybrid_volume(options, step.mesh.shard, step.mesh.replicate).inter;
          return {strategy_volume(options, VolumeStrategy::shard_grad_op).total(), inter};
        }
      }
      [[fallthrough]];
    case StrategyKind::hsdp: {
      const HybridVolume v = hybrid_volume(options, step.mesh.shard, step.mesh.replicate);
      return {v.intra, v.inter};
    }
    default: return sent(VolumeStrategy::full_shard);
  }
}

}  // namespace

TEST_CASE("every strategy sends the bytes of its closed form where nothing is padded") {
  const Model model = divisible_model();
  const auto parameters = static_cast<double>(model.parameter_elements());
  for (const Cell& cell : grid()) {
    CAPTURE(cell.name());
    const TrainingStep step = step_of(cell, model);
    const Schedule schedule = build_schedule(step);
    const Sent sent = sent_by(schedule);
    const Sent expected = closed_form(cell, step, parameters);
    CHECK(sent.shard == doctest::Approx(expected.shard).epsilon(1e-12));
    CHECK(sent.replicate == doctest::Approx(expected.replicate).epsilon(1e-12));
  }
}

TEST_CASE("FSDP2 on GPT-2 sends the closed form of each unit, its rows padded to the group") {
  // The root (embeddings, final norm) stays gathered from forward to backward; blocks do not.
  const Model model = load_model("gpt2");
  for (const Cell& cell : grid()) {
    if (cell.kind != StrategyKind::fsdp2) continue;
    CAPTURE(cell.name());
    const TrainingStep step = step_of(cell, model);
    double expected = 0;
    for (const WrapUnit& unit : wrap_units(model, WrapPolicy::block)) {
      double padded = 0;
      for (const int index : unit.parameters) {
        const Parameter& p = model.parameters[static_cast<std::size_t>(index)];
        const std::int64_t rows = p.shape.front();
        const std::int64_t groups = (rows + cell.world - 1) / cell.world;
        padded += static_cast<double>(groups * cell.world * (p.elements() / rows));
      }
      expected +=
          strategy_volume(options_of(cell, step, padded),
                          unit.root ? VolumeStrategy::no_reshard : VolumeStrategy::full_shard)
              .total();
    }
    CHECK(sent_by(build_schedule(step)).shard == doctest::Approx(expected).epsilon(1e-12));
  }
}

TEST_CASE("DDP on GPT-2 all-reduces every parameter once a step, whatever the buckets") {
  const Model model = load_model("gpt2");
  for (const double cap : {0.5, 25.0, 1000.0}) {
    for (const int world : all_worlds) {
      const Cell cell{StrategyKind::ddp, ShardingStrategy::full_shard, world, 3};
      TrainingStep step = step_of(cell, model);
      step.strategy.bucket_cap_mib = cap;
      const double expected =
          ring_all_reduce_bytes(4.0 * static_cast<double>(model.parameter_elements()), world);
      CHECK(sent_by(build_schedule(step)).shard == doctest::Approx(expected).epsilon(1e-12));
    }
  }
}

TEST_CASE("every buffer that a step allocates is freed, and no schedule of the grid has problems") {
  for (const Model& model : {divisible_model(), load_model("gpt2")}) {
    for (const Cell& cell : grid({2, 3, 64})) {
      CAPTURE(cell.name());
      const Schedule schedule = build_schedule(step_of(cell, model));
      REQUIRE(problems(schedule).empty());
      for (const RoleLedger& role : memory_ledger(schedule)) CHECK(role.growth == 0);
    }
  }
}
