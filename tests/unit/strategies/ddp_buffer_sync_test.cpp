// broadcast_buffers: rank 0's BatchNorm statistics at the start of every forward.

#include <doctest/doctest.h>

#include "tests/unit/strategies/ddp_grid.hpp"
#include "tests/unit/strategies/four_layers.hpp"
#include "tests/unit/strategies/schedule_golden.hpp"
#include "tests/unit/strategies/worked.hpp"

namespace stepcast {
namespace {

using testing::bytes_of_each;
using testing::ops_of;

// `norms` BatchNorms of `channels` channels in front of four_layers.
TrainingStep with_norms(int norms, std::int64_t channels) {
  TrainingStep step = testing::four_layers(StrategyKind::ddp);
  for (int i = 0; i < norms; ++i) {
    const std::string bn = "bn" + std::to_string(i) + ".";
    step.model.buffers.push_back({Name(bn + "running_mean"), {channels}, Dtype::fp32});
    step.model.buffers.push_back({Name(bn + "running_var"), {channels}, Dtype::fp32});
    step.model.buffers.push_back({Name(bn + "num_batches_tracked"), {}, Dtype::int64});
  }
  return step;
}

TEST_CASE("E-29: 53 BatchNorms of 26,560 channels are two broadcasts, 212,480 and 424 bytes") {
  TrainingStep step = with_norms(52, 501);  // 26,052 channels, and one of 508
  step.model.buffers.push_back({Name("bn52.running_mean"), {508}, Dtype::fp32});
  step.model.buffers.push_back({Name("bn52.running_var"), {508}, Dtype::fp32});
  step.model.buffers.push_back({Name("bn52.num_batches_tracked"), {}, Dtype::int64});
  const Schedule schedule = build_schedule(step);
  testing::check_sound(schedule);
  CHECK(bytes_of_each(ops_of(schedule), "broadcast") == std::vector<Bytes>{212'480, 424});
}

TEST_CASE("the forward waits for the broadcasts") {
  const Schedule schedule = build_schedule(with_norms(2, 64));
  testing::check_golden(schedule, "ddp-broadcast-buffers");
  for (auto& engine : testing::both_engines()) {
    const testing::Events events(*engine, schedule, [](const Op& op) {
      return op.verb == Name("broadcast") ? 3.0 : testing::four_layer_cost(op);
    });
    events.check("forward.broadcast", 0, 3);
    events.check("forward.broadcast#2", 3, 6);
    events.check("forward.compute.l1.weight", 6, 8);
  }
}

TEST_CASE("no broadcast without the flag, nor in a forward after an unsynced backward") {
  TrainingStep step = with_norms(2, 64);
  step.accumulation = 3;
  const auto broadcasts = [&] {
    const Schedule schedule = build_schedule(step);
    testing::check_sound(schedule);
    return bytes_of_each(ops_of(schedule), "broadcast").size();
  };
  CHECK(broadcasts() == 2);  // the first micro-batch follows the synced one of the step before
  step.strategy.accumulation_sync = AccumulationSync::every;
  CHECK(broadcasts() == 6);
  step.strategy.broadcast_buffers = false;
  CHECK(broadcasts() == 0);
}

TEST_CASE("under join the ranks agree on the source first, and the joined ones take part") {
  TrainingStep step = with_norms(2, 64);
  step.strategy.join_early_ranks = 3;
  const Schedule schedule = build_schedule(step);
  testing::check_sound(schedule);
  for (const std::size_t role : {0, 1}) {
    const std::vector<Op>& ops = ops_of(schedule, "steady", role);
    CHECK(bytes_of_each(ops, "join_source") == std::vector<Bytes>{8});
    CHECK(bytes_of_each(ops, "broadcast").size() == 2);
    for (const Op& op : ops) {
      if (op.verb == Name("broadcast")) CHECK(op.root == 4);  // the highest rank at work
    }
  }
}

TEST_CASE("construction sends the buffers with the parameters") {
  TrainingStep step = with_norms(1, 64);
  step.first_step = true;
  const Schedule schedule = build_schedule(step);
  testing::check_sound(schedule);
  // fp32: 40 MiB of parameters and 2 x 64 channels in one bucket; int64 in another
  CHECK(bytes_of_each(ops_of(schedule, "construction"), "broadcast") ==
        std::vector<Bytes>{40 * mib + 512, 8});
}

}  // namespace
}  // namespace stepcast
