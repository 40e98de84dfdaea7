#include "sim/strategies/ddp/ddp.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "sim/strategies/common/layer_walk.hpp"
#include "sim/strategies/common/layouts.hpp"
#include "sim/strategies/common/optimizer.hpp"
#include "sim/strategies/common/view_list.hpp"
#include "sim/strategies/ddp/buffer_sync.hpp"
#include "sim/strategies/ddp/construction.hpp"
#include "sim/strategies/ddp/join.hpp"
#include "sim/strategies/ddp/layout.hpp"
#include "sim/strategies/ddp/rebuild.hpp"
#include "sim/strategies/ddp/reducer.hpp"
#include "sim/strategies/ddp/unused.hpp"
#include "sim/strategies/ddp/used_map.hpp"

namespace stepcast::ddp {
namespace {

const Name cost_forward("ddp_forward");
const Name cost_step("step_overhead");

// Ranks that run one program.
struct RoleOf {
  std::string name;
  RankRun ranks;
  bool skips = false;   // has no gradient of the unused parameters
  bool joined = false;  // has run out of data
};

void add_runs(std::vector<RoleOf>& roles, const std::vector<RankRun>& runs, const RoleOf& like) {
  for (std::size_t i = 0; i < runs.size(); ++i) {
    RoleOf role = like;
    if (i > 0) role.name += std::to_string(i + 1);
    role.ranks = runs[i];
    roles.push_back(std::move(role));
  }
}

std::vector<RoleOf> roles_of(const TrainingStep& step, const Unused& unused) {
  const int world = step.mesh.world_size();
  const int early = step.strategy.join_early_ranks.value_or(0);
  std::vector<RoleOf> roles;
  if (unused.any() && !unused.everywhere) {
    const Partition parts = partition(unused.ranks, world, "unused_on_ranks");
    add_runs(roles, parts.out, {"uses", {}, false, false});
    add_runs(roles, parts.in, {"skips", {}, true, false});
  } else if (early > 0) {
    roles.push_back({"active", {0, world - early}, false, false});
    roles.push_back({"joined", {world - early, early}, false, true});
  } else {
    roles.push_back({"all", {0, world}, unused.any(), false});
  }
  return roles;
}

class DdpBuilder {
 public:
  explicit DdpBuilder(const TrainingStep& step)
      : step_(step),
        builder_("ddp " + step.model.name, step.mesh),
        streams_{builder_.stream("compute"), builder_.stream("nccl"), -1,
                 builder_.communicator("world", Axis::world)},
        walk_(builder_, step, streams_.compute),
        module_buffers_(builder_, step.model),
        unused_(unused_parameters(step)),
        ready_(ready_order(step.model, walk_)) {
    builder_.lane("main");
    if (step.mesh.world_size() > 1) walk_.share_scales_over(streams_.world);
    if (has_callbacks(step.strategy.comm_hook)) streams_.hook = builder_.stream("comm_hook");
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
    states_ = declare_optimizer_state(builder_, step, "optimizer_state",
                                      step.model.parameter_elements(), streams_.compute);
    if (unused_.any()) {
      builder_.note(
          "unused_parameters: their layers' kernels still run in this forecast; only "
          "their gradients, copies and reductions are left out");
    }
  }

  Schedule build() {
    if (const int early = step_.strategy.join_early_ranks.value_or(0); early > 0) {
      builder_.note(fmt::format("join: {} of {} ranks have run out of data and reduce zeros", early,
                                step_.mesh.world_size()));
    }
    const std::vector<RoleOf> roles = roles_of(step_, unused_);
    for (const RoleOf& role : roles) {
      builder_.role(role.name, role.ranks.first, role.ranks.count);
      label_ = roles.size() > 1 ? role.name + "." : "";
      suffix_ = roles.size() > 1 ? "." + role.name : "";
      if (!step_.model.buffers.empty() && step_.strategy.broadcast_buffers) {
        buffer_sync_.emplace(builder_, streams_, "buffers" + suffix_, module_buffers_.tensors(),
                             module_buffers_.views());
      }
      used_map_.reset();
      notice_.reset();
      const bool map =
          step_.strategy.static_graph ? step_.first_step : step_.strategy.find_unused_parameters;
      if (map) {
        used_map_.emplace(builder_, static_cast<std::int64_t>(step_.model.parameters.size()),
                          suffix_, streams_);
      }
      if (role.joined) {
        joined_programs();
      } else {
        if (step_.strategy.join_early_ranks) notice_.emplace(builder_, suffix_, streams_);
        programs(role);
      }
    }
    return builder_.take();
  }

 private:
  void programs(const RoleOf& role) {
    const std::vector<Iteration> all = iterations(step_.strategy, step_.first_step);
    std::optional<Reducer> initial;
    const bool rebuilds = std::any_of(
        all.begin(), all.end(), [](const Iteration& iteration) { return iteration.rebuilds; });
    Reducer final_layout(builder_, step_, walk_, layout(step_, ready_, all.back().index),
                         setup(role, "", true));
    if (rebuilds) {
      initial.emplace(builder_, step_, walk_, layout(step_, ready_, 0),
                      setup(role, "initial", false));
    }
    if (step_.first_step) {
      builder_.step("construction");
      std::vector<Tensor> broadcast = stored_tensors();
      std::vector<View> views = tensors();
      broadcast.insert(broadcast.end(), module_buffers_.tensors().begin(),
                       module_buffers_.tensors().end());
      views.insert(views.end(), module_buffers_.views().begin(), module_buffers_.views().end());
      construct(builder_, step_, walk_, streams_, broadcast, views, suffix_);
      builder_.at(Phase::setup);
      (initial ? *initial : final_layout).alloc_buckets();
    }
    Reducer* reducer = initial ? &*initial : &final_layout;
    for (const Iteration& iteration : all) {
      builder_.step(iteration.name);
      if (iteration.rebuilds) {
        rebuild_buckets(builder_, step_, streams_, label_, *initial, final_layout);
        reducer = &final_layout;
      }
      reducer->begin_iteration(iteration.delayed, &iteration == &all.back());
      steps(*reducer, created_in_first_step(step_) && &iteration == &all.front());
    }
  }

  void joined_programs() {
    const std::vector<Bucket> buckets = layout(step_, ready_, 3);
    std::vector<View> held = parameter_views();
    held.push_back(builder_.whole(states_));
    for (std::size_t b = 0; b < buckets.size(); ++b) {
      held.push_back(builder_.whole(builder_.persistent("bucket." + label_ + std::to_string(b),
                                                        BufferKind::bucket, step_.precision.reduce,
                                                        buckets[b].bytes)));
    }
    JoinedRank rank({builder_, step_, streams_, label_}, buckets, step_.strategy.comm_hook, held,
                    used_map_ ? &*used_map_ : nullptr, buffer_sync_ ? &*buffer_sync_ : nullptr,
                    buffer_source());
    builder_.step("steady");
    for (int m = 0; m < step_.accumulation; ++m) rank.iteration(walk_, m);
  }

  // Rank 0, or under join() the highest rank at work.
  int buffer_source() const {
    const std::optional<int> early = step_.strategy.join_early_ranks;
    return early ? step_.mesh.world_size() - *early - 1 : 0;
  }

  Reducer::Setup setup(const RoleOf& role, const std::string& layout_label, bool steady) {
    Reducer::Setup setup;
    setup.tensors.label = label_ + layout_label;
    setup.tensors.pool = streams_.compute;
    setup.tensors.persistent = !step_.first_step;
    if (role.skips) setup.tensors.unused = unused_.parameter;
    setup.tensors.unused_by_all = unused_.everywhere;
    setup.streams = streams_;
    if (used_map_) setup.used_map = &*used_map_;
    if (notice_ && !step_.strategy.join_divides_by_initial_world_size) setup.notice = &*notice_;
    setup.hook = step_.strategy.comm_hook;
    setup.steady = steady;
    return setup;
  }

  void steps(Reducer& reducer, bool creates_state) {
    builder_.at(Phase::load);
    builder_.host_work(cost_step, 1);
    reducer.zero_gradients(walk_);
    for (int micro_batch = 0; micro_batch < step_.accumulation; ++micro_batch) {
      forward(micro_batch);
      backward(reducer, micro_batch);
      if (reduces(step_, micro_batch)) reducer.finalize(walk_, micro_batch);
    }
    const View states = builder_.whole(states_);
    if (creates_state) {
      create_optimizer_state(builder_, step_, streams_.compute, std::span<const View>(&states, 1));
    }
    walk_.ran_on_compute(optimizer_step(builder_, step_, streams_.compute,
                                        reducer.updated_elements(), parameter_views(),
                                        reducer.gradients(), std::span<const View>(&states, 1)));
    reducer.drop_gradients();
    if (step_.sync_every_step) builder_.host_wait_device();
  }

  void forward(int micro_batch) {
    walk_.load_inputs(micro_batch);
    if (notice_) notice_->notify(walk_, micro_batch);
    if (syncs_buffers(step_, micro_batch)) {
      builder_.at(Phase::forward, -1, micro_batch);
      if (notice_) notice_->choose_source(walk_);
      buffer_sync_->issue(walk_, buffer_source());
    }
    if (notice_) notice_->will_sync(walk_, micro_batch);
    builder_.at(Phase::forward, -1, micro_batch);
    builder_.host_work(cost_forward, 1);
    for (int layer = 0; layer < walk_.layers(); ++layer) {
      walk_.forward(layer, micro_batch, weights_of(layer));
    }
    walk_.read_loss(micro_batch);
    const bool walks = mode_of(step_.strategy) == Mode::find_unused;
    if (walks && reduces(step_, micro_batch)) {
      used_map_->walk_graph(graph_nodes(step_.model, walk_), micro_batch);
    }
  }

  void backward(Reducer& reducer, int micro_batch) {
    reducer.begin_backward();
    for (int layer = walk_.layers(); layer-- > 0;) {
      const std::vector<View> weights = weights_of(layer);
      walk_.begin_backward(layer, micro_batch, weights);
      for (const Piece& piece : reducer.pieces_of(layer)) {
        reducer.before_piece(piece, micro_batch);
        walk_.backward_piece(layer, piece.first_kernel, piece.kernel_count, weights,
                             ViewList(reducer.produced(piece, micro_batch)));
        reducer.after_piece(piece, walk_, micro_batch);
      }
      walk_.end_backward(layer);
    }
  }

  // The parameters of a layer, a tied head's too.
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

  std::vector<View> parameter_views() const {
    std::vector<View> views;
    for (const BufferIndex buffer : parameters_) {
      if (buffer >= 0) views.push_back(builder_.whole(buffer));
    }
    return views;
  }

  // The parameters as they are stored and broadcast.
  std::vector<Tensor> stored_tensors() const {
    const Dtype dtype = step_.precision.parameter;
    std::vector<Tensor> tensors;
    for (const Parameter& parameter : step_.model.parameters) {
      tensors.push_back({parameter.elements() * bytes_per_element(dtype), dtype, false});
    }
    return tensors;
  }

  // Where each parameter lives.
  std::vector<View> tensors() const {
    std::vector<View> views(step_.model.parameters.size());
    for (std::size_t l = 0; l < step_.model.layers.size(); ++l) {
      const Layer& layer = step_.model.layers[l];
      Bytes offset = 0;
      for (int i = 0; i < layer.parameter_count; ++i) {
        const auto p = static_cast<std::size_t>(layer.first_parameter + i);
        const Bytes bytes =
            step_.model.parameters[p].elements() * bytes_per_element(step_.precision.parameter);
        views[p] = {parameters_[l], offset, bytes};
        offset += bytes;
      }
    }
    return views;
  }

  const TrainingStep& step_;
  ScheduleBuilder builder_;
  Streams streams_;
  LayerWalk walk_;
  ModuleBuffers module_buffers_;
  Unused unused_;
  std::vector<int> ready_;
  std::vector<BufferIndex> parameters_;  // by layer, -1 without parameters
  BufferIndex states_ = -1;
  // Of the role that is being built.
  std::string label_, suffix_;  // "skips." and ".skips"; empty where there is one role
  std::optional<UsedMap> used_map_;
  std::optional<JoinNotice> notice_;
  std::optional<BroadcastCoalesced> buffer_sync_;
};

}  // namespace

Schedule build(const TrainingStep& step) { return DdpBuilder(step).build(); }

}  // namespace stepcast::ddp
