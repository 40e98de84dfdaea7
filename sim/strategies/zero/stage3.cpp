#include "sim/strategies/zero/stage3.hpp"

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "sim/strategies/common/layer_walk.hpp"
#include "sim/strategies/common/layouts.hpp"
#include "sim/strategies/common/optimizer.hpp"
#include "sim/strategies/common/view_list.hpp"
#include "sim/strategies/zero/coordinator.hpp"
#include "sim/strategies/zero/fetcher.hpp"
#include "sim/strategies/zero/modules.hpp"
#include "sim/strategies/zero/partition.hpp"
#include "sim/strategies/zero/stage3_gradients.hpp"

namespace stepcast::zero {
namespace {

const Name cost_step("step_overhead");
const Name cost_fetch("zero3_fetch");
const Name cost_optimizer("zero_step");
const Name verb_norm("gradient_norm");
const Name verb_norm_sum("norm_all_reduce");
const Name verb_to_fp32("gradient_to_fp32");
const Name verb_unscale("unscale");
const Name verb_to_16("copy_to_16_bit");
const Name rule_persistent("zero3.persistent-parameters-gathered-again");

class Stage3Builder {
 public:
  explicit Stage3Builder(const TrainingStep& step)
      : step_(step),
        builder_("zero3 " + step.model.name, step.mesh),
        compute_(builder_.stream("compute")),
        gather_stream_(step.strategy.overlap_comm.value_or(true) ? builder_.stream("all_gather")
                                                                 : compute_),
        reduce_stream_(step.strategy.overlap_comm.value_or(true) ? builder_.stream("reduce")
                                                                 : compute_),
        world_(builder_.communicator("shard", hpz(step) ? Axis::world : Axis::shard)),
        secondary_(hpz(step) ? builder_.communicator("secondary", Axis::shard) : CommIndex{-1}),
        walk_(builder_, step, compute_),
        plan_(plan_modules(step.model, walk_, step.strategy.persistence_threshold,
                           step.strategy.leaf_layers)),
        coordinator_(numels(step.model),
                     {step.strategy.prefetch_bucket_elements, step.strategy.max_live_parameters,
                      step.strategy.max_reuse_distance}),
        owned_(owned_by_a_rank(step)),
        gradients_(builder_, step, walk_, plan_, {compute_, reduce_stream_, world_}, owned_) {
    builder_.lane("main");
    if (step.mesh.world_size() > 1) walk_.share_scales_over(world_);
    const int ranks = step.mesh.world_size();
    const Precision& p = step.precision;
    shards_ = builder_.persistent("shards", BufferKind::parameter, p.parameter,
                                  owned_ * bytes_per_element(p.parameter));
    std::vector<int> all(step.model.parameters.size());
    std::iota(all.begin(), all.end(), 0);
    chunk_layout(builder_, step, shards_, Cut::chunks, all);
    states_ = builder_.persistent("optimizer_state", BufferKind::optimizer_state, p.moments,
                                  owned_ * optimizer_state_bytes(step));
    norm_ = builder_.persistent("norm", BufferKind::other, Dtype::fp32, 4);
    for (const int parameter : plan_.persistent) {
      persistent_elements_ +=
          parameter_partition(numel(parameter), ranks) * static_cast<std::int64_t>(ranks);
    }
    persistent_ = builder_.persistent("persistent_parameters", BufferKind::parameter, p.gather,
                                      persistent_elements_ * bytes_per_element(p.gather));
    chunk_layout(builder_, step, persistent_, Cut::by_rank, plan_.persistent);
    const std::int64_t group = std::min(owned_, step.strategy.sub_group_elements);
    fp32_ =
        builder_.buffer("fp32_gradient", BufferKind::gradient, Dtype::fp32, 4 * group, compute_);
  }

  Schedule build() {
    builder_.role("all", 0, step_.mesh.world_size());
    Fetcher fetcher(builder_, step_, walk_, {compute_, gather_stream_, world_, secondary_},
                    shards_);
    fetcher_ = &fetcher;
    for (const char* name : {"first", "steady"}) {
      builder_.step(name);
      one_step();
    }
    if (!step_.first_step) builder_.drop_first_step();
    return builder_.take();
  }

 private:
  static std::vector<std::int64_t> numels(const Model& model) {
    std::vector<std::int64_t> list;
    for (const Parameter& p : model.parameters) list.push_back(p.elements());
    return list;
  }
  std::int64_t numel(int parameter) const {
    return step_.model.parameters[static_cast<std::size_t>(parameter)].elements();
  }
  static std::int64_t owned_by_a_rank(const TrainingStep& step) {
    std::int64_t owned = 0;
    for (const Parameter& p : step.model.parameters) {
      owned += parameter_partition(p.elements(), step.mesh.world_size());
    }
    return owned;
  }
  static bool hpz(const TrainingStep& step) { return step.mesh.replicate > 1; }

  void one_step() {
    builder_.at(Phase::load);
    builder_.host_work(cost_step, 1);
    for (int m = 0; m < step_.accumulation; ++m) {
      walk_.load_inputs(m);
      coordinator_.begin_step();
      builder_.at(Phase::forward, -1, m);
      fetcher_->begin_step();
      forward(m);
      backward(m);
      gradients_.end_backward(m);
      // The recorded trace is one micro-batch long; whatever is still there is used by the next.
      const std::vector<int> left = coordinator_.end_step();
      builder_.at(Phase::backward, -1, m);
      fetcher_->release(left);
    }
    optimizer();
    if (step_.sync_every_step) builder_.host_wait_device();
  }

  // A tied head runs with the embedding's parameter.
  std::vector<int> needed(const Module& module) const {
    std::vector<int> list = module.parameters;
    const Layer& layer = step_.model.layers[static_cast<std::size_t>(module.layer)];
    if (layer.tied_parameter >= 0 &&
        numel(layer.tied_parameter) > step_.strategy.persistence_threshold) {
      list.push_back(layer.tied_parameter);
    }
    return list;
  }

  void fetch(const Module& module, const std::vector<int>& parameters, Phase phase, int m) {
    builder_.at(phase, walk_.unit(module.layer), m);
    builder_.host_work(cost_fetch, 1);
    const Fetch fetch = coordinator_.before(parameters);
    fetcher_->gather(fetch.on_demand);
    fetcher_->wait(parameters);
    fetcher_->gather(fetch.prefetch);
  }

  void release(const std::vector<int>& parameters) {
    fetcher_->release(coordinator_.after(parameters));
  }

  void forward(int m) {
    for (int layer = 0; layer < walk_.layers(); ++layer) {
      walk_.begin_forward(layer, m);
      for (const int index : plan_.of_layer[static_cast<std::size_t>(layer)]) {
        const Module& module = plan_.modules[static_cast<std::size_t>(index)];
        const std::vector<int> parameters = needed(module);
        fetch(module, parameters, Phase::forward, m);
        walk_.forward_piece(layer, module.forward_first, module.forward_count, views(parameters));
        release(parameters);
      }
      walk_.end_forward(layer);
    }
    walk_.read_loss(m);
  }

  ViewList views(const std::vector<int>& parameters) const {
    ViewList list;
    for (std::size_t i = 0; i < std::min<std::size_t>(parameters.size(), 12); ++i) {
      list.add(fetcher_->view_of(parameters[i]));
    }
    return list.add(builder_.whole(persistent_));
  }

  void backward(int m) {
    gradients_.begin_backward(m);
    for (int layer = walk_.layers(); layer-- > 0;) {
      const std::vector<int>& modules = plan_.of_layer[static_cast<std::size_t>(layer)];
      begin_backward(layer, m);
      for (std::size_t i = modules.size(); i-- > 0;) {
        const Module& module = plan_.modules[static_cast<std::size_t>(modules[i])];
        const std::vector<int> parameters = needed(module);
        fetch(module, parameters, Phase::backward, m);
        const ViewList produced = gradients_.produced_by(modules[i]);
        walk_.backward_piece(layer, module.backward_first, module.backward_count, views(parameters),
                             produced);
        release(parameters);
        gradients_.arrive(modules[i], m);
      }
      walk_.end_backward(layer);
    }
  }

  // A checkpointed layer runs its forward again first, with the hooks of its modules: each gathers
  // what it needs. What backward uses again soon stays (coordinator.hpp).
  void begin_backward(int layer, int m) {
    if (walk_.work(layer).recompute.empty()) {
      walk_.begin_backward(layer, m, ViewList(builder_.whole(persistent_)));
      return;
    }
    const std::vector<int>& modules = plan_.of_layer[static_cast<std::size_t>(layer)];
    std::vector<int> all;
    for (const int index : modules) {
      const Module& module = plan_.modules[static_cast<std::size_t>(index)];
      const std::vector<int> parameters = needed(module);
      fetch(module, parameters, Phase::backward, m);
      all.insert(all.end(), parameters.begin(), parameters.end());
    }
    walk_.begin_backward(layer, m, views(all));
    for (const int index : modules) {
      release(needed(plan_.modules[static_cast<std::size_t>(index)]));
    }
  }

  void run(Name verb, Bytes read, Bytes written, std::span<const View> reads,
           std::span<const View> writes) {
    walk_.run(compute_, memory_bound(verb, step_.precision.gradient, read, written), reads, writes);
  }

  void optimizer() {
    const View gradients = gradients_.partition();
    const View norm = builder_.whole(norm_);
    const View shards = builder_.whole(shards_);
    builder_.at(Phase::optimizer);
    builder_.host_work(cost_optimizer, 1);
    run(verb_norm, gradients.bytes, 4, ViewList(gradients), ViewList(norm));
    walk_.ran_on_compute(builder_.collective(verb_norm_sum, CollectiveKind::all_reduce, world_,
                                             compute_, Dtype::fp32, 1, Reduction::sum,
                                             ViewList(norm), ViewList(norm)));
    builder_.host_wait_stream(compute_);
    const Bytes parameter = bytes_per_element(step_.precision.parameter);
    const Bytes gradient = bytes_per_element(step_.precision.gradient);
    const bool master = step_.precision.master_copy;
    for (std::int64_t first = 0; first < owned_; first += step_.strategy.sub_group_elements) {
      const std::int64_t group = std::min(step_.strategy.sub_group_elements, owned_ - first);
      builder_.alloc(fp32_);
      const View fp32{fp32_, 0, 4 * group};
      run(verb_to_fp32, gradient * group, 4 * group,
          ViewList(View{gradients.buffer, first * gradient, group * gradient}), ViewList(fp32));
      // By the loss scale and the clipped norm in one, whether either is used or not.
      run(verb_unscale, fp32.bytes, fp32.bytes, ViewList(fp32), ViewList(fp32));
      const View own{shards_, first * parameter, group * parameter};
      // A sub-group is a flat tensor of its own, with moments of its own.
      const Bytes state = optimizer_state_bytes(step_);
      const View states{states_, first * state, group * state};
      const ViewList updated = master ? ViewList(states) : ViewList(states).add(own);
      walk_.run(compute_, update_fp32_kernel(step_.optimizer, step_.precision, group),
                ViewList(fp32).add(updated), updated);
      builder_.free(fp32_);
      if (master) {
        run(verb_to_16, 4 * group, parameter * group, ViewList(states), ViewList(own));
      }
    }
    fetcher_->drop_secondaries();
    if (persistent_elements_ > 0) {
      builder_.rule(rule_persistent);
      walk_.ran_on_compute(
          builder_.collective(Name("all_gather"), CollectiveKind::all_gather, world_, compute_,
                              step_.precision.gather, persistent_elements_, Reduction::none,
                              ViewList(shards), ViewList(builder_.whole(persistent_))));
    }
  }

  const TrainingStep& step_;
  ScheduleBuilder builder_;
  StreamIndex compute_;
  StreamIndex gather_stream_;
  StreamIndex reduce_stream_;
  CommIndex world_;      // gathers and reduces
  CommIndex secondary_;  // ZeRO++ hpZ: gathers from the secondary shards; -1 without
  LayerWalk walk_;
  ModulePlan plan_;
  Coordinator coordinator_;
  std::int64_t owned_;  // elements of this rank
  Stage3Gradients gradients_;
  Fetcher* fetcher_ = nullptr;
  std::int64_t persistent_elements_ = 0;
  BufferIndex shards_ = -1;
  BufferIndex states_ = -1;
  BufferIndex persistent_ = -1;
  BufferIndex norm_ = -1;
  BufferIndex fp32_ = -1;
};

}  // namespace

Schedule build_stage3(const TrainingStep& step) { return Stage3Builder(step).build(); }

}  // namespace stepcast::zero
