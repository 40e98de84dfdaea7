#include "sim/strategies/dp/dp.hpp"

#include <fmt/format.h>

#include <optional>
#include <vector>

#include "sim/strategies/common/layer_gradients.hpp"
#include "sim/strategies/common/layer_walk.hpp"
#include "sim/strategies/common/layouts.hpp"
#include "sim/strategies/common/optimizer.hpp"
#include "sim/strategies/common/view_list.hpp"
#include "sim/strategies/dp/loss.hpp"
#include "sim/strategies/dp/reduce.hpp"
#include "sim/strategies/dp/replicate.hpp"

namespace stepcast::dp {
namespace {

const Name cost_step("step_overhead");
const Name cost_scatter("dp_scatter");
const Name cost_thread("dp_thread");
const Name cost_backward("dp_backward");
const Name cost_optimizer("optimizer_step");
const Name verb_accumulate("accumulate");
const Name rule_gil("dp.threads-share-the-gil");
const Name gil("gil");

// What the roles share: GPU 0's parameters and optimizer state.
struct State {
  State(ScheduleBuilder& builder, const TrainingStep& step) : parts(bytes_of_parameters(step)) {
    for (const Layer& layer : step.model.layers) {
      const std::int64_t elements = step.model.parameter_elements(layer);
      if (elements == 0) continue;
      const BufferIndex buffer = builder.persistent(
          "parameters." + layer.name.str(), BufferKind::parameter, step.precision.parameter,
          elements * bytes_per_element(step.precision.parameter));
      whole_layout(builder, buffer, one_after_another(step.model, layer));
      parts.add(layer.first_parameter, layer.parameter_count, buffer);
      parameters.push_back(builder.whole(buffer));
    }
    moments = builder.whole(
        builder.persistent("optimizer_state", BufferKind::optimizer_state, step.precision.moments,
                           step.model.parameter_elements() * optimizer_state_bytes(step)));
  }

  static std::vector<Bytes> bytes_of_parameters(const TrainingStep& step) {
    std::vector<Bytes> sizes;
    for (const Parameter& parameter : step.model.parameters) {
      sizes.push_back(parameter.elements() * bytes_per_element(step.precision.parameter));
    }
    return sizes;
  }

  TensorParts parts;
  std::vector<View> parameters;
  View moments;
};

void optimize(ScheduleBuilder& builder, const TrainingStep& step, StreamIndex compute,
              const State& state, const std::vector<View>& gradients) {
  optimizer_step(builder, step, compute, step.model.parameter_elements(), state.parameters,
                 gradients, ViewList(state.moments));
}

// Several GPUs.
class Parallel {
 public:
  explicit Parallel(const TrainingStep& step)
      : step_(with_loss_apart(step)),
        gpus_(step.mesh.world_size()),
        builder_("dp " + step.model.name, step.mesh),
        compute_(builder_.stream("compute")),
        copy_(builder_.stream("copy")),
        world_(builder_.communicator("world", Axis::world)),
        main_(builder_.lane("main", gil)),
        worker_(builder_.lane("worker", gil, gpus_)),
        autograd_(builder_.lane("autograd")),
        state_(builder_, step_),
        walk_(builder_, step_, compute_, copy_),
        replicas_(builder_, step_, state_.parts, compute_, world_),
        loss_(builder_, step_, walk_, compute_, world_),
        gradients_(builder_, step_, compute_),
        reduction_(builder_, step_, gradients_, compute_, world_) {}

  Schedule build() {
    for (const bool root : {true, false}) {
      root_ = root;
      if (root) {
        builder_.role("gpu0", 0, 1);
      } else {
        builder_.role("rest", 1, gpus_ - 1);
      }
      builder_.step("steady");
      run_step();
    }
    builder_.note(
        fmt::format("nn.DataParallel is given {} {}, {} a GPU; the loss is computed {}, the "
                    "optimizer on "
                    "GPU 0; the time split and the collectives are GPU 0's",
                    gpus_ * step_.workload.micro_batch,
                    takes_images(step_.model.architecture.family) ? "images" : "sequences",
                    step_.workload.micro_batch,
                    loss_.everywhere() ? "in forward, on every GPU" : "on GPU 0 over all of them"));
    return builder_.take();
  }

 private:
  static TrainingStep with_loss_apart(TrainingStep step) {
    step.workload.loss_apart = true;
    return step;
  }

  void run_step() {
    builder_.on_lane(main_);
    builder_.at(Phase::load);
    builder_.host_work(cost_step, 1);
    for (int micro_batch = 0; micro_batch < step_.accumulation; ++micro_batch) {
      load(micro_batch);
      forward(micro_batch);
      backward(micro_batch);
    }
    if (root_) {
      optimize(builder_, step_, compute_, state_, reduction_.gradients());
      reduction_.drop_gradients();
    } else {
      builder_.at(Phase::optimizer);
      builder_.host_work(cost_optimizer, 1);  // the same thread's
    }
    if (step_.sync_every_step) builder_.host_wait_device();
  }

  void load(int micro_batch) {
    builder_.at(Phase::load, -1, micro_batch);
    builder_.host_work(cost_scatter, gpus_);
    walk_.load_inputs(micro_batch);
    if (loss_.on(root_)) loss_.load_labels(micro_batch);
  }

  void forward(int micro_batch) {
    const OpIndex replicated = replicas_.replicate(root_, micro_batch);
    builder_.on_lane(worker_);
    builder_.at(Phase::forward, -1, micro_batch);
    wait_for(replicated);
    for (int layer = 0; layer < walk_.layers(); ++layer) {
      walk_.forward(layer, micro_batch, replicas_.weights_of(root_, layer));
    }
    if (loss_.everywhere()) loss_.forward(micro_batch);
    builder_.at(Phase::forward, -1, micro_batch);
    builder_.rule(rule_gil);
    const OpIndex joined = builder_.host_work(cost_thread, 1);
    builder_.on_lane(main_);
    wait_for(joined);
    loss_.gather(root_, micro_batch);
    if (root_ && !loss_.everywhere()) loss_.forward(micro_batch);
  }

  void backward(int micro_batch) {
    builder_.at(Phase::backward, -1, micro_batch);
    const OpIndex called = builder_.host_work(cost_backward, 1);
    builder_.on_lane(autograd_);
    wait_for(called);
    loss_.backward(root_, micro_batch);
    for (int layer = walk_.layers(); layer-- > 0;) {
      gradients_.alloc(layer);
      walk_.backward(layer, micro_batch, replicas_.weights_of(root_, layer), gradients_.of(layer));
      if (!root_) replicas_.passed_by_backward(layer);
    }
    const OpIndex reduced = reduction_.reduce(root_, micro_batch);
    builder_.on_lane(main_);
    wait_for(reduced);
    walk_.drop_inputs();
  }

  // A thread waits for another's host work, not for the GPU.
  void wait_for(OpIndex host_work) {
    const OpRef ref{host_work, 0};
    builder_.host_wait(std::span<const OpRef>(&ref, 1));
  }

  TrainingStep step_;
  int gpus_;
  ScheduleBuilder builder_;
  StreamIndex compute_, copy_;
  CommIndex world_;
  LaneIndex main_, worker_, autograd_;
  State state_;
  LayerWalk walk_;
  Replicas replicas_;
  Loss loss_;
  LayerGradients gradients_;
  GradientReduction reduction_;
  bool root_ = true;
};

// One GPU: nn.DataParallel calls the module itself.
class Single {
 public:
  explicit Single(const TrainingStep& step)
      : step_(step),
        builder_("dp " + step.model.name, step.mesh),
        compute_(builder_.stream("compute")),
        state_(builder_, step),
        walk_(builder_, step, compute_),
        gradients_(builder_, step, compute_) {
    builder_.lane("main");
    if (step.accumulation > 1) fresh_.emplace(builder_, step, compute_, "fresh_gradients.");
    for (int layer = 0; layer < walk_.layers(); ++layer) layers_.push_back(layer);
  }

  Schedule build() {
    builder_.role("gpu0", 0, 1);
    builder_.step("steady");
    builder_.at(Phase::load);
    builder_.host_work(cost_step, 1);
    for (int micro_batch = 0; micro_batch < step_.accumulation; ++micro_batch) {
      walk_.load_inputs(micro_batch);
      for (const int layer : layers_) walk_.forward(layer, micro_batch, weights_of(layer));
      builder_.at(Phase::backward, -1, micro_batch);
      builder_.host_work(cost_backward, 1);
      for (int layer = walk_.layers(); layer-- > 0;) backward(layer, micro_batch);
    }
    std::vector<View> gradients;
    for (const int layer : layers_) {
      if (gradients_.buffer(layer) >= 0) {
        gradients.push_back(builder_.whole(gradients_.buffer(layer)));
      }
    }
    optimize(builder_, step_, compute_, state_, gradients);
    gradients_.free(layers_);
    if (step_.sync_every_step) builder_.host_wait_device();
    return builder_.take();
  }

 private:
  std::vector<View> weights_of(int layer) const {
    const Layer& which = step_.model.layers[static_cast<std::size_t>(layer)];
    std::vector<View> views = state_.parts.views(which.first_parameter, which.parameter_count);
    if (which.tied_parameter >= 0) {
      const std::vector<View> tied = state_.parts.views(which.tied_parameter, 1);
      views.insert(views.end(), tied.begin(), tied.end());
    }
    return views;
  }

  void backward(int layer, int micro_batch) {
    LayerGradients& into = micro_batch > 0 ? *fresh_ : gradients_;
    into.alloc(layer);
    walk_.backward(layer, micro_batch, weights_of(layer), into.of(layer));
    if (micro_batch == 0 || into.buffer(layer) < 0) return;
    const View sum = builder_.whole(gradients_.buffer(layer));
    const View added = builder_.whole(into.buffer(layer));
    builder_.one_kernel(
        verb_accumulate, compute_,
        memory_bound(verb_accumulate, step_.precision.gradient, 2 * sum.bytes, sum.bytes,
                     step_.model.layers[static_cast<std::size_t>(layer)].parameter_count),
        ViewList(sum).add(added), ViewList(sum));
    into.free(std::span<const int>(&layer, 1));
  }

  const TrainingStep& step_;
  ScheduleBuilder builder_;
  StreamIndex compute_;
  State state_;
  LayerWalk walk_;
  LayerGradients gradients_;
  std::optional<LayerGradients> fresh_;
  std::vector<int> layers_;
};

}  // namespace

Schedule build(const TrainingStep& step) {
  return step.mesh.world_size() == 1 ? Single(step).build() : Parallel(step).build();
}

}  // namespace stepcast::dp
