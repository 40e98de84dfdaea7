#include "sim/strategies/zero/stage3.hpp"

#include <algorithm>
#include <deque>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "sim/strategies/common/layer_walk.hpp"
#include "sim/strategies/common/layouts.hpp"
#include "sim/strategies/common/optimizer.hpp"
#include "sim/strategies/common/view_list.hpp"
#include "sim/strategies/zero/coordinator.hpp"
#include "sim/strategies/zero/fetcher.hpp"
#include "sim/strategies/zero/ipg_bucket.hpp"
#include "sim/strategies/zero/modules.hpp"
#include "sim/strategies/zero/partition.hpp"

namespace stepcast::zero {
namespace {

constexpr std::size_t most_reductions = 2;  // outstanding before the host blocks
constexpr std::int64_t sub_group_elements = 1'000'000'000;

const Name cost_step("step_overhead");
const Name cost_fetch("zero3_fetch");
const Name cost_hook("zero_grad_hook");
const Name cost_optimizer("zero_step");
const Name verb_copy_in("copy_in");
const Name verb_interleave("interleave");
const Name verb_divide("divide");
const Name verb_reduce_scatter("reduce_scatter");
const Name verb_partition("to_partition");
const Name verb_norm("gradient_norm");
const Name verb_norm_sum("norm_all_reduce");
const Name verb_to_fp32("gradient_to_fp32");
const Name verb_adam("adamw");
const Name verb_to_16("copy_to_16_bit");
const Name rule_flush("zero.flush-by-the-next-gradient");
const Name rule_reductions("zero3.two-reductions-outstanding");
const Name rule_end("zero3.end-of-backward-synchronizes");
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
        world_(builder_.communicator("shard", Axis::shard)),
        walk_(builder_, step, compute_),
        plan_(plan_modules(step.model, walk_, step.strategy.persistence_threshold,
                           step.strategy.leaf_layers)),
        coordinator_(numels(step.model),
                     {step.strategy.prefetch_bucket_elements, step.strategy.max_live_parameters,
                      step.strategy.max_reuse_distance}) {
    builder_.lane("main");
    const int ranks = step.mesh.world_size();
    for (const Parameter& p : step.model.parameters) {
      owned_ += parameter_partition(p.elements(), ranks);
    }
    const Precision& p = step.precision;
    shards_ = builder_.persistent("shards", BufferKind::parameter, p.parameter,
                                  owned_ * bytes_per_element(p.parameter));
    std::vector<int> all(step.model.parameters.size());
    std::iota(all.begin(), all.end(), 0);
    chunk_layout(builder_, step, shards_, Cut::chunks, all);
    states_ = builder_.persistent("optimizer_state", BufferKind::optimizer_state, p.moments,
                                  owned_ * optimizer_state_bytes(p));
    gradient_shards_ = builder_.persistent("gradient_shards", BufferKind::gradient, p.gradient,
                                           owned_ * bytes_per_element(p.gradient));
    norm_ = builder_.persistent("norm", BufferKind::other, Dtype::fp32, 4);
    for (const int parameter : plan_.persistent) {
      persistent_elements_ +=
          parameter_partition(numel(parameter), ranks) * static_cast<std::int64_t>(ranks);
    }
    persistent_ = builder_.persistent("persistent_parameters", BufferKind::parameter, p.gather,
                                      persistent_elements_ * bytes_per_element(p.gather));
    chunk_layout(builder_, step, persistent_, Cut::by_rank, plan_.persistent);
    const std::int64_t group = std::min(owned_, sub_group_elements);
    fp32_ =
        builder_.buffer("fp32_gradient", BufferKind::gradient, Dtype::fp32, 4 * group, compute_);
    plan_gradients();
  }

  Schedule build() {
    builder_.role("all", 0, step_.mesh.world_size());
    Fetcher fetcher(builder_, step_, walk_, {compute_, gather_stream_, world_}, shards_);
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
  Bytes gradient_bytes(int parameter) const {
    return numel(parameter) * bytes_per_element(step_.precision.gradient);
  }

  // Gradients come module by module; a module's are one tensor here.
  void plan_gradients() {
    std::vector<int> arrival;
    const std::vector<std::int64_t> all = numels(step_.model);
    std::vector<char> seen(all.size(), 0);
    gradients_.resize(plan_.modules.size(), -1);
    gradient_parameters_.resize(plan_.modules.size());
    for (std::size_t m = plan_.modules.size(); m-- > 0;) {
      const Module& module = plan_.modules[m];
      std::vector<int>& mine = gradient_parameters_[m];
      mine = module.parameters;
      // The layer's small parameters come with the module that runs last in backward.
      if (static_cast<int>(m) == plan_.of_layer[static_cast<std::size_t>(module.layer)].front()) {
        const Layer& layer = step_.model.layers[static_cast<std::size_t>(module.layer)];
        for (int p = layer.first_parameter; p < layer.first_parameter + layer.parameter_count;
             ++p) {
          if (numel(p) <= step_.strategy.persistence_threshold) mine.push_back(p);
        }
      }
      Bytes bytes = 0;
      for (const int p : mine) {
        arrival.push_back(p);
        bytes += gradient_bytes(p);
      }
      if (bytes > 0) {
        gradients_[m] = builder_.buffer("gradients." + std::to_string(m), BufferKind::gradient,
                                        step_.precision.gradient, bytes, compute_);
        whole_layout(builder_, gradients_[m], one_after_another(step_.model, mine));
      }
    }
    flushes_ = plan_flushes(all, arrival, step_.strategy.reduce_bucket_elements);
    std::int64_t largest = 0;
    for (const Flush& flush : flushes_) largest = std::max(largest, flush.elements);
    const Bytes size = bytes_per_element(step_.precision.gradient);
    largest = std::max(largest, step_.strategy.reduce_bucket_elements);
    bucket_ = builder_.buffer("ipg_bucket", BufferKind::bucket, step_.precision.gradient,
                              largest * size, reduce_stream_);
    const std::int64_t ranks = step_.mesh.world_size();
    std::int64_t padded = 0;
    for (const Flush& flush : flushes_) padded = std::max(padded, padded_elements(flush));
    interleaved_ = builder_.buffer("interleaved", BufferKind::reduce_input,
                                   step_.precision.gradient, padded * size, reduce_stream_);
    scattered_ = builder_.buffer("scattered", BufferKind::reduce_output, step_.precision.gradient,
                                 padded / ranks * size, reduce_stream_);
  }

  std::int64_t padded_elements(const Flush& flush) const {
    const int ranks = step_.mesh.world_size();
    std::int64_t padded = 0;
    for (const int p : flush.parameters) {
      padded += parameter_partition(numel(p), ranks) * ranks;
    }
    return padded;
  }

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
      end_backward(m);
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
  }

  ViewList views(const std::vector<int>& parameters) const {
    ViewList list;
    for (std::size_t i = 0; i < std::min<std::size_t>(parameters.size(), 12); ++i) {
      list.add(fetcher_->view_of(parameters[i]));
    }
    return list.add(builder_.whole(persistent_));
  }

  void backward(int m) {
    next_flush_ = 0;
    filled_ = 0;
    partition_filled_ = 0;
    reductions_.clear();
    builder_.at(Phase::backward, -1, m);
    builder_.alloc(bucket_);
    for (int layer = walk_.layers(); layer-- > 0;) {
      const std::vector<int>& modules = plan_.of_layer[static_cast<std::size_t>(layer)];
      begin_backward(layer, m);
      for (std::size_t i = modules.size(); i-- > 0;) {
        const auto index = static_cast<std::size_t>(modules[i]);
        const Module& module = plan_.modules[index];
        const std::vector<int> parameters = needed(module);
        fetch(module, parameters, Phase::backward, m);
        const BufferIndex gradients = gradients_[index];
        if (gradients >= 0) builder_.alloc(gradients);
        walk_.backward_piece(layer, module.backward_first, module.backward_count, views(parameters),
                             gradients < 0 ? ViewList() : ViewList(builder_.whole(gradients)));
        release(parameters);
        if (gradients >= 0) arrive(index, m);
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

  void on_reduce_stream(OpIndex op) {
    if (reduce_stream_ == compute_) walk_.ran_on_compute(op);
  }
  OpIndex run(Name verb, StreamIndex stream, Bytes read, Bytes written, std::span<const View> reads,
              std::span<const View> writes) {
    const Kernel kernel = memory_bound(verb, step_.precision.gradient, read, written);
    const OpIndex op = builder_.one_kernel(verb, stream, kernel, reads, writes);
    if (stream == compute_) walk_.ran_on_compute(op);
    return op;
  }

  // A module's gradients enter the bucket on the reduce stream.
  void arrive(std::size_t module, int m) {
    builder_.at(Phase::backward, walk_.unit(plan_.modules[module].layer), m);
    const View tensor = builder_.whole(gradients_[module]);
    builder_.host_work(cost_hook, static_cast<int>(gradient_parameters_[module].size()));
    if (reduce_stream_ != compute_) builder_.stream_wait(reduce_stream_, walk_.last_compute());
    Bytes offset = 0;
    for (const int p : gradient_parameters_[module]) {
      if (next_flush_ < flushes_.size() && flushes_[next_flush_].triggered_by == p) flush();
      const Bytes bytes = gradient_bytes(p);
      run(verb_copy_in, reduce_stream_, bytes, bytes,
          ViewList(View{tensor.buffer, tensor.offset + offset, bytes}),
          ViewList(View{bucket_, filled_, bytes}));
      filled_ += bytes;
      offset += bytes;
    }
    builder_.free_after_streams(gradients_[module],
                                std::span<const StreamIndex>(&reduce_stream_, 1));
  }

  void flush() {
    const Flush& flush = flushes_[next_flush_++];
    const Bytes size = bytes_per_element(step_.precision.gradient);
    const Bytes padded = padded_elements(flush) * size;
    const Bytes mine = padded / step_.mesh.world_size();
    builder_.rule(rule_flush);
    builder_.alloc(interleaved_);
    const View flat{interleaved_, 0, padded};
    run(verb_interleave, reduce_stream_, filled_, padded, ViewList(View{bucket_, 0, filled_}),
        ViewList(flat));
    run(verb_divide, reduce_stream_, padded, padded, ViewList(flat), ViewList(flat));
    builder_.alloc(scattered_);
    const View part{scattered_, 0, mine};
    on_reduce_stream(builder_.collective(
        verb_reduce_scatter, CollectiveKind::reduce_scatter, world_, reduce_stream_,
        step_.precision.gradient, padded / size, Reduction::sum, ViewList(flat), ViewList(part)));
    const View slot{gradient_shards_, partition_filled_, mine};
    // Copied in the first micro-batch, added in later ones.
    const bool add = builder_.op(builder_.last()).micro_batch > 0;
    ViewList reads(part);
    if (add) reads.add(slot);
    const OpIndex done =
        run(verb_partition, reduce_stream_, (add ? 2 : 1) * mine, mine, reads, ViewList(slot));
    builder_.free(scattered_);
    builder_.free(interleaved_);
    partition_filled_ += mine;
    filled_ = 0;
    reductions_.push_back(done);
    if (reduce_stream_ != compute_ && reductions_.size() > most_reductions) {
      const OpRef oldest{reductions_.front(), 0};
      reductions_.pop_front();
      builder_.rule(rule_reductions);
      builder_.host_wait(std::span<const OpRef>(&oldest, 1));
    }
    builder_.rule(Name());
  }

  void end_backward(int m) {
    builder_.at(Phase::backward, -1, m);
    if (filled_ > 0) flush();
    builder_.rule(rule_end);
    builder_.host_wait_stream(reduce_stream_);
    builder_.rule(Name());
    if (reduce_stream_ != compute_) {
      builder_.stream_wait(compute_,
                           reductions_.empty() ? walk_.last_compute() : reductions_.back());
    }
    builder_.free(bucket_);
  }

  void optimizer() {
    const View gradients = builder_.whole(gradient_shards_);
    const View norm = builder_.whole(norm_);
    const View states = builder_.whole(states_);
    const View shards = builder_.whole(shards_);
    builder_.at(Phase::optimizer);
    builder_.host_work(cost_optimizer, 1);
    run(verb_norm, compute_, gradients.bytes, 4, ViewList(gradients), ViewList(norm));
    walk_.ran_on_compute(builder_.collective(verb_norm_sum, CollectiveKind::all_reduce, world_,
                                             compute_, Dtype::fp32, 1, Reduction::sum,
                                             ViewList(norm), ViewList(norm)));
    builder_.host_wait_stream(compute_);
    const Bytes parameter = bytes_per_element(step_.precision.parameter);
    const Bytes gradient = bytes_per_element(step_.precision.gradient);
    for (std::int64_t first = 0; first < owned_; first += sub_group_elements) {
      const std::int64_t group = std::min(sub_group_elements, owned_ - first);
      builder_.alloc(fp32_);
      const View fp32{fp32_, 0, 4 * group};
      run(verb_to_fp32, compute_, gradient * group, 4 * group,
          ViewList(View{gradient_shards_, first * gradient, group * gradient}), ViewList(fp32));
      // With a master copy Adam writes that, and the shards are copied from it; else the shards.
      const View own{shards_, first * parameter, group * parameter};
      const bool master = step_.precision.master_copy;
      ViewList adam_reads = ViewList(fp32).add(states);
      ViewList adam_writes(states);
      if (!master) {
        adam_reads.add(own);
        adam_writes.add(own);
      }
      run(verb_adam, compute_, 16 * group, 12 * group, adam_reads, adam_writes);
      builder_.free(fp32_);
      if (master) {
        run(verb_to_16, compute_, 4 * group, parameter * group, ViewList(states), ViewList(own));
      }
    }
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
  CommIndex world_;
  LayerWalk walk_;
  ModulePlan plan_;
  Coordinator coordinator_;
  Fetcher* fetcher_ = nullptr;
  std::int64_t owned_ = 0;  // elements of this rank
  std::int64_t persistent_elements_ = 0;
  BufferIndex shards_ = -1;
  BufferIndex states_ = -1;
  BufferIndex gradient_shards_ = -1;
  BufferIndex persistent_ = -1;
  BufferIndex norm_ = -1;
  BufferIndex fp32_ = -1;
  BufferIndex bucket_ = -1;
  BufferIndex interleaved_ = -1;
  BufferIndex scattered_ = -1;
  std::vector<BufferIndex> gradients_;                 // by module
  std::vector<std::vector<int>> gradient_parameters_;  // by module
  std::vector<Flush> flushes_;
  std::size_t next_flush_ = 0;
  Bytes filled_ = 0;
  Bytes partition_filled_ = 0;
  std::deque<OpIndex> reductions_;
};

}  // namespace

Schedule build_stage3(const TrainingStep& step) { return Stage3Builder(step).build(); }

}  // namespace stepcast::zero
