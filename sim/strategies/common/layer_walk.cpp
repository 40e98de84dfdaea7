#include "sim/strategies/common/layer_walk.hpp"

#include <algorithm>

#include "sim/strategies/common/fp8_scales.hpp"
#include "sim/strategies/common/layouts.hpp"
#include "sim/strategies/common/view_list.hpp"

namespace stepcast {
namespace {

const Name verb_forward("compute");
const Name verb_recompute("recompute");
const Name verb_backward("compute");
const Name verb_inputs("inputs");
const Name verb_loss("loss_item");
const Name rule_loss("host.reads-the-loss-before-backward");
constexpr Bytes loss_bytes = 4;  // one fp32

// Tensors without kernels (bucket and padding exercises) still have a backward in which their
// gradients become ready, last parameter first.
void give_plain_tensors_a_backward(LayerWork& work, int parameters) {
  if (!work.backward.empty() || parameters == 0) return;
  static const Name plain("tensor");
  work.forward.push_back(memory_bound(plain, Dtype::fp32, 0, 0));
  for (int p = parameters; p-- > 0;) {
    work.backward.push_back({memory_bound(plain, Dtype::fp32, 0, 0), {p}});
  }
}

}  // namespace

LayerWalk::LayerWalk(ScheduleBuilder& builder, const TrainingStep& step, StreamIndex compute,
                     StreamIndex inputs)
    : builder_(builder),
      step_(step),
      compute_(compute),
      input_stream_(inputs),
      loader_(builder, step) {
  const Model& model = step.model;
  plans_.resize(static_cast<std::size_t>(model.shape_classes));
  buffers_.resize(model.layers.size());
  units_.reserve(model.layers.size());
  Bytes largest_hidden = 0;

  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    const Layer& layer = model.layers[i];
    units_.push_back(builder.unit(layer.name));
    ClassPlan& plan = plans_[static_cast<std::size_t>(layer.shape_class)];
    if (!plan.known) {
      plan.known = true;
      plan.work = work_of(model, static_cast<int>(i), step.workload);
      give_plain_tensors_a_backward(plan.work, layer.parameter_count);
      std::vector<Kernel> backward;
      backward.reserve(plan.work.backward.size());
      for (const BackwardKernel& b : plan.work.backward) backward.push_back(b.kernel);
      plan.forward = builder.kernels(plan.work.forward);
      plan.recompute = builder.kernels(plan.work.recompute);
      plan.backward = builder.kernels(backward);
      const BufferKind kind =
          layer.kind == LayerKind::head ? BufferKind::logits : BufferKind::workspace;
      const Bytes tensor = plan.work.workspace_tensor;
      plan.forward_workspace = workspace("forward_workspace." + layer.name.str(), kind,
                                         plan.work.forward_workspace, tensor);
      plan.backward_workspace = workspace("backward_workspace." + layer.name.str(), kind,
                                          plan.work.backward_workspace, tensor);
    }
    const bool has_input = i > 0;
    const Bytes input = has_input ? this->plan(static_cast<int>(i) - 1).work.output : 0;
    const Bytes saved = std::max<Bytes>(0, plan.work.saved_activations - input);
    const BufferKind kind =
        layer.kind == LayerKind::head ? BufferKind::logits : BufferKind::activation;
    LayerBuffers& mine = buffers_[i];
    if (plan.work.output > 0) {
      mine.hidden = builder.buffer("hidden." + layer.name.str(), kind, step.workload.compute_dtype,
                                   plan.work.output, compute);
    }
    if (saved > 0) {
      mine.saved = builder.buffer("saved." + layer.name.str(), kind, step.workload.compute_dtype,
                                  saved, compute);
    }
    if (plan.work.recomputed_activations > 0) {
      mine.recomputed =
          builder.buffer("recomputed." + layer.name.str(), kind, step.workload.compute_dtype,
                         plan.work.recomputed_activations, compute);
    }
    // The gradient of a head's output, the logits, comes from outside.
    if (layer.kind != LayerKind::head) largest_hidden = std::max(largest_hidden, plan.work.output);
  }
  if (largest_hidden > 0) {
    for (const char* name : {"grad_hidden.a", "grad_hidden.b"}) {
      grad_buffers_.push_back(builder.buffer(name, BufferKind::workspace,
                                             step.workload.compute_dtype, largest_hidden, compute));
    }
  }
  const bool images = takes_images(model.architecture.family);
  const char* name = images ? "images" : "tokens";
  const Dtype dtype = images ? Dtype::fp32 : Dtype::int64;
  const Bytes bytes = input_bytes(model, step.workload) -
                      (step.workload.loss_apart ? label_bytes(model, step.workload) : 0);
  inputs_ = inputs >= 0 ? builder.buffer(name, BufferKind::input, dtype, bytes, inputs)
                        : builder.persistent(name, BufferKind::input, dtype, bytes);
  find_tied_parameter();
  if (step.workload.fp8 == Fp8Recipe::te_delayed) {
    scale_history_ = builder.persistent("fp8_amax_history", BufferKind::other, Dtype::fp32,
                                        fp8_history_bytes(model));
  }
}

std::vector<BufferIndex> LayerWalk::workspace(const std::string& name, BufferKind kind, Bytes bytes,
                                              Bytes tensor) {
  std::vector<BufferIndex> buffers;
  if (tensor <= 0) tensor = bytes;
  for (int i = 0; bytes > 0; ++i) {
    // The 16-bit logits come before their copy.
    const Bytes rest = bytes % tensor;
    const Bytes part = rest > 0 ? rest : tensor;
    buffers.push_back(builder_.buffer(i == 0 ? name : name + "." + std::to_string(i), kind,
                                      step_.workload.compute_dtype, part, compute_));
    bytes -= part;
  }
  return buffers;
}

void LayerWalk::find_tied_parameter() {
  const Model& model = step_.model;
  for (const Layer& layer : model.layers) {
    if (layer.tied_parameter < 0) continue;
    for (std::size_t owner = 0; owner < model.layers.size(); ++owner) {
      const Layer& candidate = model.layers[owner];
      if (layer.tied_parameter >= candidate.first_parameter &&
          layer.tied_parameter < candidate.first_parameter + candidate.parameter_count) {
        tied_owner_ = static_cast<int>(owner);
      }
    }
    const Parameter& tied = model.parameters[static_cast<std::size_t>(layer.tied_parameter)];
    tied_gradient_ =
        builder_.buffer("tied_gradient", BufferKind::gradient, step_.precision.gradient,
                        tied.elements() * bytes_per_element(step_.precision.gradient), compute_);
    const int shared = layer.tied_parameter;
    whole_layout(builder_, tied_gradient_,
                 one_after_another(model, std::span<const int>(&shared, 1)));
  }
}

bool LayerWalk::feeds_tied(int layer) const {
  return tied_gradient_ >= 0 &&
         step_.model.layers[static_cast<std::size_t>(layer)].tied_parameter >= 0;
}

View LayerWalk::whole_or_none(BufferIndex buffer) const {
  return buffer < 0 ? View{} : builder_.whole(buffer);
}

BufferIndex LayerWalk::input_of(int layer) const {
  return layer == 0 ? inputs_ : buffers_[static_cast<std::size_t>(layer - 1)].hidden;
}

void LayerWalk::load_inputs(int micro_batch) {
  micro_batch_ = micro_batch;
  loader_.next_batch(micro_batch);
  builder_.at(Phase::load, -1, micro_batch);
  const View inputs = builder_.whole(inputs_);
  if (input_stream_ >= 0) builder_.alloc(inputs_);
  last_compute_ = builder_.copy(verb_inputs, CopyKind::host_to_device,
                                input_stream_ >= 0 ? input_stream_ : compute_, inputs.bytes, {},
                                ViewList(inputs));
  if (input_stream_ >= 0) builder_.stream_wait(compute_, last_compute_);
}

void LayerWalk::drop_inputs() {
  STEPCAST_ASSERT(input_stream_ >= 0, "inputs that stay are not dropped");
  builder_.free_after_streams(inputs_, std::span<const StreamIndex>(&compute_, 1));
}

View LayerWalk::logits() const {
  STEPCAST_ASSERT(step_.workload.loss_apart, "logits that nobody but the head sees");
  const BufferIndex output = buffers_.back().hidden;
  return step_.model.layers.back().kind == LayerKind::head ? whole_or_none(output) : View{};
}

void LayerWalk::drop_logits() {
  if (logits().buffer >= 0) builder_.free(logits().buffer);
}

void LayerWalk::read_loss(int micro_batch) {
  if (!step_.sync_after_forward) return;
  builder_.at(Phase::loss, -1, micro_batch);
  builder_.rule(rule_loss);
  const BufferIndex top = buffers(layers() - 1).hidden;
  const ViewList loss = top < 0 ? ViewList() : ViewList(View{top, 0, loss_bytes});
  last_compute_ =
      builder_.copy(verb_loss, CopyKind::device_to_host, compute_, loss_bytes, loss, {});
  const OpRef read{last_compute_, 0};
  builder_.host_wait(std::span<const OpRef>(&read, 1));
}

OpIndex LayerWalk::run(StreamIndex stream, const Kernel& kernel, std::span<const View> reads,
                       std::span<const View> writes) {
  const OpIndex op = builder_.one_kernel(kernel.name, stream, kernel, reads, writes);
  if (stream == compute_) last_compute_ = op;
  return op;
}

void LayerWalk::begin_forward(int layer, int micro_batch) {
  micro_batch_ = micro_batch;
  builder_.at(Phase::forward, unit(layer), micro_batch);
  // What a layer needs for a while comes last, but for the loss: its logits and their fp32 copy are
  // there before what it keeps of them, and what they leave behind is a hole below that.
  const bool loss = plan(layer).work.workspace_tensor > 0;
  if (loss) alloc(plan(layer).forward_workspace);
  alloc(buffers(layer).hidden);
  alloc(buffers(layer).saved);
  if (!loss) alloc(plan(layer).forward_workspace);
}

void LayerWalk::forward_piece(int layer, int first_kernel, int kernel_count,
                              std::span<const View> weights) {
  const ClassPlan& plan = this->plan(layer);
  const LayerBuffers& mine = buffers(layer);
  builder_.at(Phase::forward, unit(layer), micro_batch_);
  ViewList reads = ViewList().add(whole_or_none(input_of(layer))).add(weights);
  // The loss compares with the labels.
  const bool head = step_.model.layers[static_cast<std::size_t>(layer)].kind == LayerKind::head;
  if (head && !step_.workload.loss_apart) reads.add(builder_.whole(inputs_));
  ViewList writes = ViewList().add(whole_or_none(mine.hidden)).add(whole_or_none(mine.saved));
  add_whole(writes, plan.forward_workspace);
  const Range kernels{plan.forward.first + first_kernel, kernel_count};
  last_compute_ = builder_.compute(verb_forward, compute_, kernels, reads, writes);
}

void LayerWalk::end_forward(int layer) {
  free(plan(layer).forward_workspace);
  grad_in_ = -1;
}

void LayerWalk::forward(int layer, int micro_batch, std::span<const View> weights) {
  begin_forward(layer, micro_batch);
  forward_piece(layer, 0, plan(layer).forward.count, weights);
  end_forward(layer);
}

void LayerWalk::recompute(int layer, int micro_batch, std::span<const View> weights) {
  const LayerBuffers& mine = buffers(layer);
  micro_batch_ = micro_batch;
  builder_.at(Phase::backward, unit(layer), micro_batch);
  alloc(mine.recomputed);
  const ViewList reads =
      ViewList().add(whole_or_none(input_of(layer))).add(whole_or_none(mine.saved)).add(weights);
  last_compute_ = builder_.compute(verb_recompute, compute_, plan(layer).recompute, reads,
                                   ViewList(whole_or_none(mine.recomputed)));
  recomputed_ = layer;
}

void LayerWalk::begin_backward(int layer, int micro_batch, std::span<const View> weights) {
  const ClassPlan& plan = this->plan(layer);
  micro_batch_ = micro_batch;
  builder_.at(Phase::backward, unit(layer), micro_batch);
  if (recomputes(layer) && recomputed_ != layer) recompute(layer, micro_batch, weights);
  recomputed_ = -1;
  alloc(plan.backward_workspace);
  if (feeds_tied(layer)) alloc(tied_gradient_);
  grad_out_ = -1;
  if (layer > 0 && buffers(layer - 1).hidden >= 0 && !grad_buffers_.empty()) {
    grad_out_ = grad_buffers_[static_cast<std::size_t>(grad_turn_)];
    grad_turn_ = 1 - grad_turn_;
    builder_.alloc(grad_out_);
  }
}

OpIndex LayerWalk::backward_piece(int layer, int first_kernel, int kernel_count,
                                  std::span<const View> weights, std::span<const View> gradients) {
  const ClassPlan& plan = this->plan(layer);
  const LayerBuffers& mine = buffers(layer);
  builder_.at(Phase::backward, unit(layer), micro_batch_);
  const Range kernels{plan.backward.first + first_kernel, kernel_count};
  ViewList reads = ViewList()
                       .add(whole_or_none(grad_in_))
                       .add(whole_or_none(input_of(layer)))
                       .add(whole_or_none(mine.saved))
                       .add(whole_or_none(mine.recomputed))
                       .add(weights);
  ViewList writes = ViewList().add(whole_or_none(grad_out_));
  add_whole(writes, plan.backward_workspace);
  writes.add(gradients);
  if (waits_for_tied(layer)) reads.add(builder_.whole(tied_gradient_));
  if (feeds_tied(layer)) writes.add(builder_.whole(tied_gradient_));
  last_compute_ = builder_.compute(verb_backward, compute_, kernels, reads, writes);
  return last_compute_;
}

void LayerWalk::end_backward(int layer) {
  const LayerBuffers& mine = buffers(layer);
  free(plan(layer).backward_workspace);
  if (waits_for_tied(layer)) free(tied_gradient_);
  free(grad_in_);
  free(mine.recomputed);
  free(mine.saved);
  // The output was the input that the layer above saved; at the top nobody else frees it.
  if (layer == layers() - 1 && !step_.workload.loss_apart) free(mine.hidden);
  if (layer > 0) free(buffers(layer - 1).hidden);
  grad_in_ = grad_out_;
  grad_out_ = -1;
  if (layer == 0 && scale_history_ >= 0) {
    last_compute_ =
        reduce_delayed_scales(builder_, step_.model, compute_, scales_over_, scale_history_);
  }
}

OpIndex LayerWalk::backward(int layer, int micro_batch, std::span<const View> weights,
                            std::span<const View> gradients) {
  begin_backward(layer, micro_batch, weights);
  const OpIndex op = backward_piece(layer, 0, plan(layer).backward.count, weights, gradients);
  end_backward(layer);
  return op;
}

}  // namespace stepcast
