#include "sim/strategies/fsdp2/fsdp2.hpp"

#include <vector>

#include "sim/strategies/common/layer_walk.hpp"
#include "sim/strategies/common/optimizer.hpp"
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
  streams.shard = builder.communicator("shard", Axis::shard);
  streams.reduce = step.strategy.separate_reduce_scatter_group
                       ? builder.communicator("shard_reduce", Axis::shard)
                       : streams.shard;
  if (step.mesh.replicate > 1) {
    streams.all_reduce = builder.stream("all_reduce");
    streams.replicate = builder.communicator("replicate", Axis::replicate);
  }
  return streams;
}

class Fsdp2Builder {
 public:
  explicit Fsdp2Builder(const TrainingStep& step)
      : step_(step),
        builder_((step.mesh.replicate > 1 ? "hsdp " : "fsdp2 ") + step.model.name, step.mesh),
        streams_(declare_streams(builder_, step)),
        walk_(builder_, step, streams_.compute),
        units_(declare_units(builder_, step, streams_)),
        gather_(builder_, step, streams_, walk_),
        reduce_(builder_, step, streams_, walk_) {
    builder_.lane("main");
    unit_of_layer_.assign(step.model.layers.size(), -1);
    for (std::size_t u = 0; u < units_.size(); ++u) {
      for (const int layer : units_[u].wrap.layers) {
        unit_of_layer_[static_cast<std::size_t>(layer)] = static_cast<int>(u);
      }
      if (units_[u].wrap.root) root_ = static_cast<int>(u);
    }
  }

  Schedule build() {
    builder_.role("all", 0, step_.mesh.world_size());
    builder_.step("steady");
    builder_.at(Phase::load);
    builder_.host_work(cost_step, 1);
    for (int m = 0; m < step_.accumulation; ++m) {
      forward(m);
      backward(m);
    }
    optimizer();
    if (step_.sync_every_step) builder_.host_wait_device();
    return builder_.take();
  }

 private:
  Unit& unit(int index) { return units_[static_cast<std::size_t>(index)]; }
  bool last(int micro_batch) const { return micro_batch == step_.accumulation - 1; }

  // A visit is a run of consecutive layers of one unit; the root has none, it spans the step.
  bool visit_begins(int layer, int step) const {
    const auto at = static_cast<std::size_t>(layer);
    const int mine = unit_of_layer_[at];
    if (mine < 0 || mine == root_) return false;
    const int neighbour = layer - step;
    if (neighbour < 0 || neighbour >= walk_.layers()) return true;
    return unit_of_layer_[static_cast<std::size_t>(neighbour)] != mine;
  }

  ViewList weights_of(int layer) {
    ViewList views;
    const int mine = unit_of_layer_[static_cast<std::size_t>(layer)];
    if (mine >= 0) views.add(builder_.whole(unit(mine).unsharded));
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
    host(cost_root_pre_forward, root_, Phase::forward, m);
    gather_.streams_wait_for_compute(Phase::forward, m);
    if (root_ >= 0) {
      gather_.unshard(unit(root_), Phase::forward, m);
      gather_.wait_forward(unit(root_), m);
    }
    for (int layer = 0; layer < walk_.layers(); ++layer) {
      const int u = unit_of_layer_[static_cast<std::size_t>(layer)];
      if (visit_begins(layer, +1)) {
        host(cost_pre_forward, u, Phase::forward, m);
        gather_.unshard(unit(u), Phase::forward, m);
        gather_.wait_forward(unit(u), m);
      }
      walk_.forward(layer, m, weights_of(layer));
      if (visit_begins(layer, -1)) {  // and ends here
        host(cost_post_forward, u, Phase::forward, m);
        if (step_.strategy.reshard_after_forward && !unit(u).wrap.keep_after_forward) {
          gather_.reshard(unit(u));
        }
        prefetch_.forward_ended(u);
      }
    }
    builder_.at(Phase::forward, -1, m);
    gather_.release_last();
    if (root_ >= 0) prefetch_.forward_ended(root_);
  }

  void pre_backward(int u, int m) {
    host(cost_pre_backward, u, Phase::backward, m);
    gather_.unshard(unit(u), Phase::backward, m);
    gather_.wait_backward(unit(u), m);
    const int target = prefetch_.target_of(u);
    if (target >= 0) gather_.unshard(unit(target), Phase::backward, m);
  }

  void post_backward(int u, int m) {
    host(cost_post_backward, u, Phase::backward, m);
    const AccumulationSync sync = step_.strategy.accumulation_sync;
    if (last(m) || step_.strategy.reshard_after_backward) gather_.reshard(unit(u));
    reduce_.post_backward(unit(u), m, last(m) || sync != AccumulationSync::last,
                          last(m) || sync == AccumulationSync::every);
  }

  void backward(int m) {
    if (root_ >= 0) pre_backward(root_, m);
    for (int layer = walk_.layers(); layer-- > 0;) {
      const int u = unit_of_layer_[static_cast<std::size_t>(layer)];
      if (visit_begins(layer, -1)) pre_backward(u, m);
      builder_.at(Phase::backward, walk_.unit(layer), m);
      reduce_.alloc_gradients(layer);
      walk_.backward(layer, m, weights_of(layer), reduce_.gradients(layer));
      if (visit_begins(layer, +1)) post_backward(u, m);
    }
    if (root_ >= 0) post_backward(root_, m);
    host(cost_finalize, -1, Phase::backward, m);
    reduce_.finalize(units_, m);
  }

  void optimizer() {
    std::vector<View> parameters;
    std::vector<View> gradients;
    std::vector<View> states;
    std::int64_t elements = 0;
    for (const Unit& unit : units_) {
      parameters.push_back(builder_.whole(unit.shard));
      gradients.push_back(builder_.whole(unit.gradient_shard));
      states.push_back(builder_.whole(unit.state));
      elements += unit.size.shard_elements(step_.mesh.shard);
    }
    walk_.ran_on_compute(
        optimizer_step(builder_, step_, streams_.compute, elements, parameters, gradients, states));
    reduce_.drop_gradients(units_);
  }

  const TrainingStep& step_;
  ScheduleBuilder builder_;
  Streams streams_;
  LayerWalk walk_;
  std::vector<Unit> units_;
  Gather gather_;
  Reduce reduce_;
  BackwardPrefetch prefetch_;
  std::vector<int> unit_of_layer_;  // -1: a layer without parameters
  int root_ = -1;
};

}  // namespace

Schedule build(const TrainingStep& step) { return Fsdp2Builder(step).build(); }

}  // namespace stepcast::fsdp2
