#include "sim/strategies/zero/stage12.hpp"

#include <numeric>
#include <vector>

#include "sim/strategies/common/layer_walk.hpp"
#include "sim/strategies/common/layouts.hpp"
#include "sim/strategies/common/optimizer.hpp"
#include "sim/strategies/common/view_list.hpp"
#include "sim/strategies/zero/gradient_flow.hpp"
#include "sim/strategies/zero/partition.hpp"

namespace stepcast::zero {
namespace {

const Name cost_step("step_overhead");
const Name cost_optimizer("zero_step");
const Name verb_norm("gradient_norm");
const Name verb_norm_sum("norm_all_reduce");
const Name verb_flatten("flatten");
const Name verb_to_fp32("gradient_to_fp32");
const Name verb_unscale("unscale");
const Name verb_to_16("copy_to_16_bit");
const Name verb_all_gather("all_gather");
const Name rule_checks("zero.step-checks-read-by-the-host");
const Name rule_gather("zero.one-all-gather-of-the-flat-buffer");

class Stage12Builder {
 public:
  explicit Stage12Builder(const TrainingStep& step)
      : step_(step),
        flat_(flat_partition(step.model.parameter_elements(), step.mesh.world_size())),
        builder_(std::string(to_string(step.strategy.kind)) + " " + step.model.name, step.mesh),
        compute_(builder_.stream("compute")),
        reduction_(step.strategy.overlap_comm.value_or(false) ? builder_.stream("reduction")
                                                              : compute_),
        world_(builder_.communicator("world", Axis::world)),
        walk_(builder_, step, compute_),
        parameters_(builder_.persistent(
            "flat_parameters", BufferKind::parameter, step.precision.parameter,
            flat_.padded_elements * bytes_per_element(step.precision.parameter))),
        states_(builder_.persistent("optimizer_state", BufferKind::optimizer_state,
                                    step.precision.moments,
                                    flat_.per_rank * optimizer_state_bytes(step))),
        flat_gradient_(partition("flat_gradient")),
        fp32_gradient_(builder_.buffer("fp32_gradient", BufferKind::gradient, Dtype::fp32,
                                       4 * flat_.per_rank, compute_)),
        norm_(builder_.persistent("norm", BufferKind::other, Dtype::fp32, 4)),
        flow_(builder_, step, walk_, {compute_, reduction_, world_}, partition("partition"),
              partition("fresh_partition"), flat_.per_rank) {
    builder_.lane("main");
    if (step.mesh.world_size() > 1) walk_.share_scales_over(world_);
    whole_layout(builder_, parameters_, flat_order());
    Bytes offset = 0;
    for (const Layer& layer : step.model.layers) {
      const Bytes bytes =
          step.model.parameter_elements(layer) * bytes_per_element(step.precision.parameter);
      weights_.push_back({parameters_, offset, bytes});
      offset += bytes;
    }
  }

  Schedule build() {
    builder_.role("all", 0, step_.mesh.world_size());
    builder_.step("steady");
    builder_.at(Phase::load);
    builder_.host_work(cost_step, 1);
    for (int m = 0; m < step_.accumulation; ++m) {
      walk_.load_inputs(m);
      for (int layer = 0; layer < walk_.layers(); ++layer) {
        walk_.forward(layer, m, weights_of(layer));
      }
      walk_.read_loss(m);
      flow_.begin_backward(m);
      for (int layer = walk_.layers(); layer-- > 0;) flow_.backward(layer, m, weights_of(layer));
      flow_.end_backward(m);
    }
    optimizer();
    if (step_.sync_every_step) builder_.host_wait_device();
    return builder_.take();
  }

 private:
  // All parameters in definition order: the flat buffer.
  std::vector<Placed> flat_order() const {
    std::vector<int> all(step_.model.parameters.size());
    std::iota(all.begin(), all.end(), 0);
    return one_after_another(step_.model, all);
  }

  BufferIndex partition(const char* name) {
    const BufferIndex buffer =
        builder_.buffer(name, BufferKind::gradient, step_.precision.gradient,
                        flat_.per_rank * bytes_per_element(step_.precision.gradient), compute_);
    builder_.layout(buffer, Cut::flat, Axis::world, flat_.per_rank, flat_order());
    return buffer;
  }

  ViewList weights_of(int layer) const {
    ViewList views(weights_[static_cast<std::size_t>(layer)]);
    const int tied = step_.model.layers[static_cast<std::size_t>(layer)].tied_parameter;
    if (tied >= 0) {
      Bytes offset = 0;
      for (int p = 0; p < tied; ++p) {
        offset += step_.model.parameters[static_cast<std::size_t>(p)].elements();
      }
      const Bytes size = bytes_per_element(step_.precision.parameter);
      views.add({parameters_, offset * size,
                 step_.model.parameters[static_cast<std::size_t>(tied)].elements() * size});
    }
    return views;
  }

  void run(Name verb, Bytes read, Bytes written, std::span<const View> reads,
           std::span<const View> writes) {
    walk_.run(compute_, memory_bound(verb, Dtype::fp32, read, written), reads, writes);
  }

  void optimizer() {
    const View gradients = flow_.partition();
    const View norm = builder_.whole(norm_);
    builder_.at(Phase::optimizer);
    builder_.rule(rule_checks);
    builder_.host_work(cost_optimizer, 1);
    run(verb_norm, gradients.bytes, 4, ViewList(gradients), ViewList(norm));
    builder_.collective(verb_norm_sum, CollectiveKind::all_reduce, world_, compute_, Dtype::fp32, 1,
                        Reduction::sum, ViewList(norm), ViewList(norm));
    builder_.host_wait_stream(compute_);  // .item()
    builder_.rule(Name());

    const View fp32 = builder_.whole(fp32_gradient_);
    if (step_.precision.gradient == Dtype::fp32) {
      builder_.alloc(fp32_gradient_);
      run(verb_flatten, gradients.bytes, fp32.bytes, ViewList(gradients), ViewList(fp32));
    } else {
      const View flat = builder_.whole(flat_gradient_);
      builder_.alloc(flat_gradient_);
      run(verb_flatten, gradients.bytes, flat.bytes, ViewList(gradients), ViewList(flat));
      builder_.alloc(fp32_gradient_);
      run(verb_to_fp32, flat.bytes, fp32.bytes, ViewList(flat), ViewList(fp32));
      builder_.free(flat_gradient_);
    }
    flow_.drop_gradients();
    run(verb_unscale, fp32.bytes, fp32.bytes, ViewList(fp32), ViewList(fp32));
    // On the fp32 master slice, fused Adam 28 B an element; 16-bit parameters are written by a copy
    // of their own.
    const View states = builder_.whole(states_);
    const Bytes own = flat_.per_rank * bytes_per_element(step_.precision.parameter);
    const View own_slice{parameters_, 0, own};  // rank 0's; every rank has its own offset
    const bool master = step_.precision.master_copy;
    const ViewList updated = master ? ViewList(states) : ViewList(states).add(own_slice);
    walk_.run(compute_, update_fp32_kernel(step_.optimizer, step_.precision, flat_.per_rank),
              ViewList(fp32).add(updated), updated);
    builder_.free(fp32_gradient_);
    if (master) {
      run(verb_to_16, 4 * flat_.per_rank, own, ViewList(states), ViewList(own_slice));
    }
    builder_.rule(rule_gather);
    if (step_.mesh.world_size() > 1) {
      const View whole = builder_.whole(parameters_);
      walk_.ran_on_compute(builder_.collective(
          verb_all_gather, CollectiveKind::all_gather, world_, compute_, step_.precision.parameter,
          flat_.padded_elements, Reduction::none, ViewList(own_slice), ViewList(whole)));
    }
  }

  const TrainingStep& step_;
  FlatPartition flat_;
  ScheduleBuilder builder_;
  StreamIndex compute_;
  StreamIndex reduction_;
  CommIndex world_;
  LayerWalk walk_;
  BufferIndex parameters_;
  BufferIndex states_;
  BufferIndex flat_gradient_;
  BufferIndex fp32_gradient_;
  BufferIndex norm_;
  GradientFlow flow_;
  std::vector<View> weights_;  // by layer
};

}  // namespace

Schedule build_stage12(const TrainingStep& step) { return Stage12Builder(step).build(); }

}  // namespace stepcast::zero
