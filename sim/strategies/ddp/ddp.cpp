#include "sim/strategies/ddp/ddp.hpp"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "sim/strategies/common/layer_walk.hpp"
#include "sim/strategies/common/layouts.hpp"
#include "sim/strategies/common/optimizer.hpp"
#include "sim/strategies/common/view_list.hpp"
#include "sim/strategies/ddp/buckets.hpp"
#include "sim/strategies/ddp/reducer.hpp"

namespace stepcast::ddp {
namespace {

const Name cost_forward("ddp_forward");
const Name cost_step("step_overhead");
const Name verb_rebuild("rebuild_broadcast");
const Name verb_upload("rebuild_upload");
const Name verb_download("rebuild_download");
const Name rule_rebuild("ddp.rebuild-in-second-forward");

class DdpBuilder {
 public:
  explicit DdpBuilder(const TrainingStep& step)
      : step_(step),
        builder_("ddp " + step.model.name, step.mesh),
        compute_(builder_.stream("compute")),
        nccl_(builder_.stream("nccl")),
        world_(builder_.communicator("world", Axis::world)),
        walk_(builder_, step, compute_) {
    builder_.lane("main");
    for (const Layer& layer : step.model.layers) {
      const std::int64_t elements = step.model.parameter_elements(layer);
      parameters_.push_back(
          elements == 0
              ? BufferIndex{-1}
              : builder_.persistent("parameters." + layer.name.str(), BufferKind::parameter,
                                    step.precision.parameter,
                                    elements * bytes_per_element(step.precision.parameter)));
      if (elements > 0) {
        whole_layout(builder_, parameters_.back(), one_after_another(step.model, layer));
      }
    }
    states_ = builder_.persistent(
        "optimizer_state", BufferKind::optimizer_state, step.precision.moments,
        step.model.parameter_elements() * optimizer_state_bytes(step.precision));
    for (const Parameter& parameter : step.model.parameters) {
      tensors_.push_back({parameter.elements() * bytes_per_element(step.precision.gradient),
                          step.precision.gradient, false});
    }
  }

  Schedule build() {
    builder_.role("all", 0, step_.mesh.world_size());
    const std::vector<int> ready = ready_order(step_.model, walk_);
    const StrategyOptions& options = step_.strategy;
    Limits limits =
        limits_for(options.bucket_cap_mib.value_or(25.0), options.bucket_cap_mib.has_value());
    if (options.first_bucket_mib) {
      limits.front() = limits_for(*options.first_bucket_mib, true).front();
    }
    const Reducer::Streams streams{compute_, nccl_, world_};
    Reducer rebuilt(builder_, step_, walk_, rebuilt_buckets(tensors_, ready, limits), "", streams,
                    !step_.first_step);
    if (step_.first_step) {
      Reducer whole(builder_, step_, walk_, construction_buckets(tensors_, {no_limit}), "initial",
                    streams, false);
      builder_.step("first");
      whole.alloc_buckets();
      steps(whole);
      builder_.step("second");
      rebuild_buckets(whole, rebuilt);
      steps(rebuilt);
    }
    builder_.step("steady");
    steps(rebuilt);
    return builder_.take();
  }

 private:
  std::vector<View> weights_of(int layer) const {
    std::vector<View> views;
    const auto add = [&](int index) {
      const BufferIndex buffer = parameters_[static_cast<std::size_t>(index)];
      if (buffer >= 0) views.push_back(builder_.whole(buffer));
    };
    add(layer);
    const int tied = step_.model.layers[static_cast<std::size_t>(layer)].tied_parameter;
    if (tied >= 0) add(walk_.tied_owner());
    return views;
  }

  // The two broadcasts of rank 0's order: parameter count + 1 and then bucket count int32, each
  // with a blocking device-to-host copy.
  void rebuild_buckets(Reducer& whole, Reducer& rebuilt) {
    builder_.at(Phase::setup);
    builder_.rule(rule_rebuild);
    const auto broadcast = [&](std::int64_t elements) {
      const BufferIndex buffer =
          builder_.buffer(fmt::format("rebuild.{}", elements), BufferKind::other, Dtype::int32,
                          4 * elements, compute_);
      builder_.alloc(buffer);
      const View view = builder_.whole(buffer);
      const OpIndex up = builder_.copy(verb_upload, CopyKind::host_to_device, compute_, view.bytes,
                                       {}, ViewList(view));
      builder_.stream_wait(nccl_, up);
      const OpIndex sent =
          builder_.collective(verb_rebuild, CollectiveKind::broadcast, world_, nccl_, Dtype::int32,
                              elements, Reduction::none, ViewList(view), ViewList(view), 0);
      builder_.stream_wait(compute_, sent);
      const OpRef down{builder_.copy(verb_download, CopyKind::device_to_host, compute_, view.bytes,
                                     ViewList(view), {}),
                       0};
      builder_.host_wait(std::span<const OpRef>(&down, 1));
      builder_.free(buffer);
    };
    broadcast(static_cast<std::int64_t>(tensors_.size()) + 1);
    broadcast(static_cast<std::int64_t>(rebuilt.buckets().size()));
    whole.free_buckets();
    rebuilt.alloc_buckets();
  }

  void steps(Reducer& reducer) {
    builder_.at(Phase::load);
    builder_.host_work(cost_step, 1);
    for (int micro_batch = 0; micro_batch < step_.accumulation; ++micro_batch) {
      const bool reduce = step_.strategy.accumulation_sync != AccumulationSync::last ||
                          micro_batch == step_.accumulation - 1;
      forward(micro_batch);
      backward(reducer, micro_batch, reduce);
      if (reduce) reducer.finalize(walk_, micro_batch);
    }
    std::vector<View> parameters;
    for (const BufferIndex buffer : parameters_) {
      if (buffer >= 0) parameters.push_back(builder_.whole(buffer));
    }
    const View states = builder_.whole(states_);
    walk_.ran_on_compute(optimizer_step(builder_, step_, compute_, step_.model.parameter_elements(),
                                        parameters, reducer.gradients(),
                                        std::span<const View>(&states, 1)));
    reducer.drop_gradients();
    if (step_.sync_every_step) builder_.host_wait_device();
  }

  void forward(int micro_batch) {
    walk_.load_inputs(micro_batch);
    builder_.at(Phase::forward, -1, micro_batch);
    builder_.host_work(cost_forward, 1);
    for (int layer = 0; layer < walk_.layers(); ++layer) {
      walk_.forward(layer, micro_batch, weights_of(layer));
    }
  }

  void backward(Reducer& reducer, int micro_batch, bool reduce) {
    const bool accumulating = micro_batch > 0;
    for (int layer = walk_.layers(); layer-- > 0;) {
      const std::vector<View> weights = weights_of(layer);
      walk_.begin_backward(layer, micro_batch, weights);
      for (const Piece& piece : reducer.pieces_of(layer)) {
        reducer.before_piece(piece, accumulating, micro_batch);
        walk_.backward_piece(layer, piece.first_kernel, piece.kernel_count, weights,
                             ViewList(reducer.produced(piece, accumulating)));
        reducer.after_piece(piece, walk_, accumulating, reduce, micro_batch);
      }
      walk_.end_backward(layer);
    }
  }

  const TrainingStep& step_;
  ScheduleBuilder builder_;
  StreamIndex compute_;
  StreamIndex nccl_;
  CommIndex world_;
  LayerWalk walk_;
  std::vector<BufferIndex> parameters_;  // by layer, -1 without parameters
  BufferIndex states_ = -1;
  std::vector<Tensor> tensors_;  // by parameter
};

}  // namespace

Schedule build(const TrainingStep& step) { return DdpBuilder(step).build(); }

}  // namespace stepcast::ddp
