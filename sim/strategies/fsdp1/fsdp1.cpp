#include "sim/strategies/fsdp1/fsdp1.hpp"

#include <string_view>
#include <vector>

#include "sim/strategies/common/layer_walk.hpp"
#include "sim/strategies/common/optimizer.hpp"
#include "sim/strategies/common/unit_visits.hpp"
#include "sim/strategies/common/view_list.hpp"
#include "sim/strategies/fsdp1/gather.hpp"
#include "sim/strategies/fsdp1/prefetch.hpp"
#include "sim/strategies/fsdp1/reduce.hpp"
#include "sim/strategies/fsdp1/unit.hpp"

namespace stepcast::fsdp1 {
namespace {

const Name cost_step("step_overhead");
const Name cost_pre_forward("fsdp1_pre_forward");
const Name cost_post_forward("fsdp1_post_forward");
const Name cost_pre_backward("fsdp1_pre_backward");
const Name cost_post_backward("fsdp1_post_backward");
const Name rule_outside("fsdp1.checkpoint-outside-gathers-again");
const Name cost_finalize("fsdp1_finalize_backward");

Streams declare_streams(ScheduleBuilder& builder, const TrainingStep& step) {
  const bool hybrid = step.mesh.replicate > 1 && step.mesh.shard > 1;
  // PyTorch raises the priority of the three only for HYBRID with the limiter on.
  const int priority = hybrid && step.strategy.limit_all_gathers ? -1 : 0;
  Streams streams;
  streams.compute = builder.stream("compute");
  streams.unshard = builder.stream("unshard", priority);
  streams.pre_unshard = builder.stream("pre_unshard", priority);
  streams.post_backward = builder.stream("post_backward", priority);
  streams.all_reduce = hybrid ? builder.stream("all_reduce") : streams.post_backward;
  streams.shard = builder.communicator("shard", Axis::shard);
  if (step.mesh.replicate > 1) {
    streams.replicate = builder.communicator("replicate", Axis::replicate);
  }
  return streams;
}

class Fsdp1Builder {
 public:
  explicit Fsdp1Builder(const TrainingStep& step)
      : step_(step),
        policy_(policy_of(step.strategy.sharding)),
        builder_("fsdp1 " + step.model.name, step.mesh),
        streams_(declare_streams(builder_, step)),
        walk_(builder_, step, streams_.compute),
        units_(declare_units(builder_, step, streams_)),
        visits_(step.model.layers.size(), units_),
        gather_(builder_, step, streams_, walk_),
        reduce_(builder_, step, streams_, walk_) {
    builder_.lane("main");
    walk_.share_scales_over(step.mesh.shard > 1 ? streams_.shard : streams_.replicate);
  }

  Schedule build() {
    builder_.role("all", 0, step_.mesh.world_size());
    for (const char* name : {"first", "second", "steady"}) {
      builder_.step(name);
      one_step(std::string_view(name) == "first");
      gather_.end_step();
      order_.iteration_ended();
    }
    // The steady step needs what the earlier ones leave in the limiter's queue; who did not ask for
    // them does not get them.
    if (!step_.first_step) {
      builder_.drop_first_step();
      builder_.drop_first_step();
    }
    return builder_.take();
  }

 private:
  Unit& unit(int index) { return units_[static_cast<std::size_t>(index)]; }
  bool last(int micro_batch) const { return micro_batch == step_.accumulation - 1; }
  bool syncs(int micro_batch) const {
    return last(micro_batch) || step_.strategy.accumulation_sync != AccumulationSync::last;
  }

  ViewList weights_of(int layer) {
    const int mine = visits_.unit_of(layer);
    return mine < 0 ? ViewList() : ViewList(builder_.whole(unit(mine).unsharded));
  }

  void host(Name cost, int unit_index, Phase phase, int micro_batch) {
    builder_.at(phase, unit_index < 0 ? -1 : unit(unit_index).name, micro_batch);
    builder_.host_work(cost, 1);
  }

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

  // _unshard unless a prefetch did it already.
  void unshard_for_use(int u, Phase phase, int m) {
    if (unit(u).prefetched) {
      unit(u).prefetched = false;
    } else {
      gather_.unshard(unit(u), phase, m);
    }
    gather_.use(unit(u), phase, m);
  }

  void prefetch(int u, Phase phase, int m) {
    if (u < 0 || unit(u).prefetched) return;
    // A unit whose pre-backward has run already is not gathered again.
    if (phase == Phase::backward && !unit(u).needs_pre_backward) return;
    gather_.unshard(unit(u), phase, m);
    unit(u).prefetched = true;
  }

  void pre_forward(int u, int m) {
    host(cost_pre_forward, u, Phase::forward, m);
    order_.pre_forward(u);
    unshard_for_use(u, Phase::forward, m);
    if (step_.strategy.forward_prefetch) prefetch(order_.next_forward(u), Phase::forward, m);
  }

  void post_forward(int u) {
    order_.post_forward(u);
    unit(u).needs_pre_backward = true;
  }

  void forward(int m) {
    walk_.load_inputs(m);
    order_.forward_begins();
    gather_.streams_wait_for_compute(m);
    if (visits_.root() >= 0) pre_forward(visits_.root(), m);
    for (int layer = 0; layer < walk_.layers(); ++layer) {
      const int u = visits_.unit_of(layer);
      if (visits_.first_of_visit(layer)) pre_forward(u, m);
      walk_.forward(layer, m, weights_of(layer));
      if (visits_.last_of_visit(layer)) {
        host(cost_post_forward, u, Phase::forward, m);
        if (policy_.reshard_after_forward && policy_.sharded) gather_.reshard(unit(u));
        post_forward(u);
      }
    }
    if (visits_.root() >= 0) post_forward(visits_.root());
    walk_.read_loss(m);
  }

  // A checkpoint around the unit runs the unit's whole forward again, hooks included, so its
  // parameters are gathered for it, freed after it, and gathered once more for the backward.
  void recompute(int u, int layer, int m) {
    host(cost_pre_forward, u, Phase::backward, m);
    unshard_for_use(u, Phase::backward, m);
    walk_.recompute(layer, m, weights_of(layer));
    host(cost_post_forward, u, Phase::backward, m);
    builder_.rule(rule_outside);
    if (policy_.reshard_after_forward && policy_.sharded) gather_.reshard(unit(u));
    builder_.rule(Name());
  }

  void pre_backward(int u, int m) {
    host(cost_pre_backward, u, Phase::backward, m);
    unit(u).needs_pre_backward = false;
    unshard_for_use(u, Phase::backward, m);
    if (step_.strategy.backward_prefetch == BackwardPrefetchMode::pre) {
      prefetch(order_.next_backward(u), Phase::backward, m);
    }
  }

  void post_backward(int u, int m) {
    host(cost_post_backward, u, Phase::backward, m);
    reduce_.concatenate(unit(u), m);
    // FULL_SHARD frees in no_sync too; SHARD_GRAD_OP keeps the parameters until it syncs.
    if (policy_.sharded && (syncs(m) || policy_.reshard_after_forward)) gather_.reshard(unit(u));
    if (!policy_.sharded && last(m)) gather_.drop_copy(unit(u));
    if (step_.strategy.backward_prefetch == BackwardPrefetchMode::post) {
      prefetch(order_.next_backward(u), Phase::backward, m);
    }
    if (syncs(m)) reduce_.post_backward(unit(u), m);
  }

  void backward(int m) {
    if (visits_.root() >= 0) pre_backward(visits_.root(), m);
    for (int layer = walk_.layers(); layer-- > 0;) {
      const int u = visits_.unit_of(layer);
      if (visits_.last_of_visit(layer)) {
        if (step_.strategy.checkpoint_outside_unit && walk_.recomputes(layer)) {
          recompute(u, layer, m);
        }
        pre_backward(u, m);
      }
      builder_.at(Phase::backward, walk_.unit(layer), m);
      reduce_.gradients().alloc(layer);
      walk_.backward(layer, m, weights_of(layer), reduce_.gradients().of(layer));
      if (visits_.first_of_visit(layer)) post_backward(u, m);
    }
    if (visits_.root() >= 0) post_backward(visits_.root(), m);
    host(cost_finalize, -1, Phase::backward, m);
    reduce_.finalize(m);
  }

  void optimizer(bool first) {
    Owned owned;
    for (const Unit& unit : units_) {
      owned.add(builder_, unit, unit.flat.shard_elements);
    }
    if (first) create_optimizer_state(builder_, step_, streams_.compute, owned.states);
    NormScope scope;
    if (policy_.sharded && step_.mesh.shard > 1) scope.comm = streams_.shard;
    scope.looped = policy_.sharded;
    if (!step_.strategy.use_orig_params) scope.tensors = static_cast<std::int64_t>(units_.size());
    walk_.ran_on_compute(optimizer_step(builder_, step_, streams_.compute, owned.elements,
                                        owned.parameters, owned.gradients, owned.states, scope));
    reduce_.drop_gradients(units_);
  }

  const TrainingStep& step_;
  Policy policy_;
  ScheduleBuilder builder_;
  Streams streams_;
  LayerWalk walk_;
  std::vector<Unit> units_;
  UnitVisits visits_;
  Gather gather_;
  Reduce reduce_;
  ExecutionOrder order_;
};

}  // namespace

Schedule build(const TrainingStep& step) { return Fsdp1Builder(step).build(); }

}  // namespace stepcast::fsdp1
