#include "sim/strategies/fsdp2/fsdp2.hpp"

#include <string>
#include <vector>

#include "sim/strategies/common/fp8_scales.hpp"
#include "sim/strategies/common/layer_walk.hpp"
#include "sim/strategies/common/optimizer.hpp"
#include "sim/strategies/common/unit_visits.hpp"
#include "sim/strategies/common/view_list.hpp"
#include "sim/strategies/fsdp2/gather.hpp"
#include "sim/strategies/fsdp2/prefetch.hpp"
#include "sim/strategies/fsdp2/reduce.hpp"
#include "sim/strategies/fsdp2/unit.hpp"

namespace stepcast::fsdp2 {
namespace {

const Name cost_step("step_overhead");
const Name cost_root_pre_forward("fsdp2_root_pre_forward");
const Name cost_pre_forward("fsdp2_pre_forward");
const Name cost_post_forward("fsdp2_post_forward");
const Name cost_pre_backward("fsdp2_pre_backward");
const Name cost_post_backward("fsdp2_post_backward");
const Name cost_finalize("fsdp2_finalize_backward");

Streams declare_streams(ScheduleBuilder& builder, const TrainingStep& step) {
  Streams streams;
  streams.compute = builder.stream("compute");
  streams.copy_in = builder.stream("all_gather_copy_in", -1);
  streams.all_gather = builder.stream("all_gather", -1);
  streams.reduce_scatter = builder.stream("reduce_scatter", -1);
  // Resharding to groups of n makes them the mesh's inner axis; the shards are then over all ranks.
  const bool regathers = step.strategy.reshard_group > 0;
  const Axis axis = regathers ? Axis::world : Axis::shard;
  streams.shard = builder.communicator("shard", axis);
  if (regathers) streams.regather = builder.communicator("regather", Axis::shard);
  streams.reduce = step.strategy.separate_reduce_scatter_group
                       ? builder.communicator("shard_reduce", axis)
                       : streams.shard;
  if (!regathers && step.mesh.replicate > 1) {
    streams.all_reduce = builder.stream("all_reduce");
    streams.replicate = builder.communicator("replicate", Axis::replicate);
  }
  return streams;
}

class Fsdp2Builder {
 public:
  explicit Fsdp2Builder(const TrainingStep& step)
      : step_(step),
        builder_(std::string(to_string(step.strategy.kind)) + " " + step.model.name, step.mesh),
        streams_(declare_streams(builder_, step)),
        walk_(builder_, step, streams_.compute),
        units_(declare_units(builder_, step, streams_)),
        visits_(step.model.layers.size(), units_),
        gather_(builder_, step, streams_, walk_),
        reduce_(builder_, step, streams_, walk_),
        prefetch_(visits_.order(), step.strategy.forward_prefetch_units,
                  step.strategy.backward_prefetch_units) {
    builder_.lane("main");
    walk_.share_scales_over(shard_ranks(step) > 1 ? streams_.shard : CommIndex{-1});
    if (step.strategy.keep_last_block) keep_last_block();
    if (step.strategy.checkpoint_outside_unit) {
      builder_.note(
          "FSDP2 skips its hooks while a checkpoint recomputes: outside or inside the unit, "
          "nothing "
          "is gathered again");
    }
  }

  Schedule build() {
    builder_.role("all", 0, step_.mesh.world_size());
    if (step_.first_step) {
      builder_.step("first");
      one_step(true);
    }
    builder_.step("steady");
    one_step(false);
    return builder_.take();
  }

 private:
  void one_step(bool first) {
    builder_.at(Phase::load);
    builder_.host_work(cost_step, 1);
    for (int m = 0; m < step_.accumulation; ++m) {
      forward(m);
      backward(m);
    }
    optimizer(first);
    if (step_.sync_every_step) builder_.host_wait_device();
  }

  void keep_last_block() {
    for (int layer = walk_.layers(); layer-- > 0;) {
      if (step_.model.layers[static_cast<std::size_t>(layer)].kind != LayerKind::block) continue;
      if (visits_.unit_of(layer) >= 0) unit(visits_.unit_of(layer)).wrap.keep_after_forward = true;
      return;
    }
  }

  Unit& unit(int index) { return units_[static_cast<std::size_t>(index)]; }
  bool last(int micro_batch) const { return micro_batch == step_.accumulation - 1; }

  ViewList weights_of(int layer, Phase phase) {
    ViewList views;
    const int mine = visits_.unit_of(layer);
    const bool there = mine >= 0 && (phase == Phase::forward || unit(mine).unshard_in_backward);
    if (there) views.add(builder_.whole(unit(mine).unsharded));
    // A tied head shares the root's unit with the embedding (wrap_units refuses anything else).
    return views;
  }

  void host(Name cost, int unit_index, Phase phase, int micro_batch) {
    builder_.at(phase, unit_index < 0 ? -1 : unit(unit_index).name, micro_batch);
    builder_.host_work(cost, 1);
  }

  void forward(int m) {
    walk_.load_inputs(m);
    prefetch_.forward_begins();
    host(cost_root_pre_forward, visits_.root(), Phase::forward, m);
    gather_.streams_wait_for_compute(Phase::forward, m);
    if (visits_.root() >= 0) {
      gather_.unshard(unit(visits_.root()), Phase::forward, m);
      gather_.wait_forward(unit(visits_.root()), m);
    }
    for (int layer = 0; layer < walk_.layers(); ++layer) {
      const int u = visits_.unit_of(layer);
      if (visits_.first_of_visit(layer)) {
        host(cost_pre_forward, u, Phase::forward, m);
        gather_.unshard(unit(u), Phase::forward, m);
        gather_.wait_forward(unit(u), m);
        for (const int target : prefetch_.forward_targets(u)) {
          gather_.unshard(unit(target), Phase::forward, m);
        }
      }
      walk_.forward(layer, m, weights_of(layer, Phase::forward));
      if (visits_.last_of_visit(layer)) {
        host(cost_post_forward, u, Phase::forward, m);
        if (step_.strategy.reshard_after_forward && !unit(u).wrap.keep_after_forward) {
          gather_.reshard_after_forward(unit(u));
        }
        prefetch_.forward_ended(u);
      }
    }
    builder_.at(Phase::forward, -1, m);
    gather_.release_last();
    if (visits_.root() >= 0) prefetch_.forward_ended(visits_.root());
    walk_.read_loss(m);
  }

  void pre_backward(int u, int m) {
    host(cost_pre_backward, u, Phase::backward, m);
    gather_.unshard(unit(u), Phase::backward, m);
    gather_.wait_backward(unit(u), m);
    for (const int target : prefetch_.backward_targets(u)) {
      gather_.unshard(unit(target), Phase::backward, m);
    }
  }

  void post_backward(int u, int m) {
    host(cost_post_backward, u, Phase::backward, m);
    const AccumulationSync sync = step_.strategy.accumulation_sync;
    if (last(m) || step_.strategy.reshard_after_backward) gather_.reshard(unit(u));
    reduce_.post_backward(unit(u), m, last(m) || sync != AccumulationSync::last,
                          last(m) || sync == AccumulationSync::every);
  }

  void backward(int m) {
    if (visits_.root() >= 0) pre_backward(visits_.root(), m);
    for (int layer = walk_.layers(); layer-- > 0;) {
      const int u = visits_.unit_of(layer);
      if (visits_.last_of_visit(layer)) pre_backward(u, m);
      builder_.at(Phase::backward, walk_.unit(layer), m);
      reduce_.gradients().alloc(layer);
      walk_.backward(layer, m, weights_of(layer, Phase::backward), reduce_.gradients().of(layer));
      if (visits_.first_of_visit(layer)) post_backward(u, m);
    }
    if (visits_.root() >= 0) post_backward(visits_.root(), m);
    host(cost_finalize, -1, Phase::backward, m);
    reduce_.finalize(units_, m);
  }

  void optimizer(bool first) {
    Owned owned;
    for (const Unit& unit : units_) {
      owned.add(builder_, unit, unit.size.shard_elements(shard_ranks(step_)));
    }
    if (first) create_optimizer_state(builder_, step_, streams_.compute, owned.states);
    NormScope scope;
    if (shard_ranks(step_) > 1) scope.comm = streams_.shard;
    scope.dtensors = true;
    walk_.ran_on_compute(optimizer_step(builder_, step_, streams_.compute, owned.elements,
                                        owned.parameters, owned.gradients, owned.states, scope));
    reduce_.drop_gradients(units_);
    if (step_.strategy.fp8_precompute_scale) {
      std::vector<View> shards;
      for (const Unit& unit : units_) {
        if (fp8_weights(step_.model, unit.wrap) > 0) shards.push_back(builder_.whole(unit.shard));
      }
      walk_.ran_on_compute(
          precompute_scales(builder_, step_, streams_.compute, scope.comm, shards));
    }
  }

  const TrainingStep& step_;
  ScheduleBuilder builder_;
  Streams streams_;
  LayerWalk walk_;
  std::vector<Unit> units_;
  UnitVisits visits_;
  Gather gather_;
  Reduce reduce_;
  Prefetch prefetch_;
};

}  // namespace

Schedule build(const TrainingStep& step) { return Fsdp2Builder(step).build(); }

}  // namespace stepcast::fsdp2
