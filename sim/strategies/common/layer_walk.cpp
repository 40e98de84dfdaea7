#include "sim/strategies/common/layer_walk.hpp"

#include <algorithm>

#include "sim/strategies/common/layouts.hpp"
#include "sim/strategies/common/view_list.hpp"

namespace stepcast {
namespace {

const Name verb_forward("compute");
const Name verb_recompute("recompute");
const Name verb_backward("compute");
const Name verb_inputs("inputs");

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

LayerWalk::LayerWalk(ScheduleBuilder& builder, const TrainingStep& step, StreamIndex compute)
    : builder_(builder), step_(step), compute_(compute), loader_(builder, step) {
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
      if (plan.work.forward_workspace > 0) {
        plan.forward_workspace =
            builder.buffer("forward_workspace." + layer.name.str(), kind,
                           step.workload.compute_dtype, plan.work.forward_workspace, compute);
      }
      if (plan.work.backward_workspace > 0) {
        plan.backward_workspace =
            builder.buffer("backward_workspace." + layer.name.str(), kind,
                           step.workload.compute_dtype, plan.work.backward_workspace, compute);
      }
    }
    const bool has_input = i > 0;
    const Bytes input = has_input ? this->plan(static_cast<int>(i) - 1).work.output : 0;
    const Bytes saved = std::max<Bytes>(0, plan.work.saved_activations - input);
    const BufferKind kind =
        layer.kind == LayerKind::head ? BufferKind::logits : BufferKind::activation;
    LayerBuffers& mine = buffers_[i];
    if (plan.work.output > 0) {
      mine.hidden = builder.buffer("hidden." + layer.name.str(), BufferKind::activation,
                                   step.workload.compute_dtype, plan.work.output, compute);
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
    largest_hidden = std::max(largest_hidden, plan.work.output);
  }
  if (largest_hidden > 0) {
    for (const char* name : {"grad_hidden.a", "grad_hidden.b"}) {
      grad_buffers_.push_back(builder.buffer(name, BufferKind::workspace,
                                             step.workload.compute_dtype, largest_hidden, compute));
    }
  }
  const bool images = takes_images(model.architecture.family);
  inputs_ =
      builder.persistent(images ? "images" : "tokens", BufferKind::input,
                         images ? Dtype::fp32 : Dtype::int64, input_bytes(model, step.workload));
  find_tied_parameter();
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
  last_compute_ = builder_.copy(verb_inputs, CopyKind::host_to_device, compute_, inputs.bytes, {},
                                ViewList(inputs));
}

void LayerWalk::begin_forward(int layer, int micro_batch) {
  micro_batch_ = micro_batch;
  builder_.at(Phase::forward, unit(layer), micro_batch);
  alloc(buffers(layer).hidden);
  alloc(buffers(layer).saved);
  alloc(plan(layer).forward_workspace);
}

void LayerWalk::forward_piece(int layer, int first_kernel, int kernel_count,
                              std::span<const View> weights) {
  const ClassPlan& plan = this->plan(layer);
  const LayerBuffers& mine = buffers(layer);
  builder_.at(Phase::forward, unit(layer), micro_batch_);
  ViewList reads = ViewList().add(whole_or_none(input_of(layer))).add(weights);
  // The loss compares with the labels.
  if (step_.model.layers[static_cast<std::size_t>(layer)].kind == LayerKind::head) {
    reads.add(builder_.whole(inputs_));
  }
  const ViewList writes = ViewList()
                              .add(whole_or_none(mine.hidden))
                              .add(whole_or_none(mine.saved))
                              .add(whole_or_none(plan.forward_workspace));
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

void LayerWalk::begin_backward(int layer, int micro_batch, std::span<const View> weights) {
  const ClassPlan& plan = this->plan(layer);
  const LayerBuffers& mine = buffers(layer);
  micro_batch_ = micro_batch;
  builder_.at(Phase::backward, unit(layer), micro_batch);
  if (plan.recompute.count > 0) {
    alloc(mine.recomputed);
    const ViewList reads =
        ViewList().add(whole_or_none(input_of(layer))).add(whole_or_none(mine.saved)).add(weights);
    last_compute_ = builder_.compute(verb_recompute, compute_, plan.recompute, reads,
                                     ViewList(whole_or_none(mine.recomputed)));
  }
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
  ViewList writes = ViewList()
                        .add(whole_or_none(grad_out_))
                        .add(whole_or_none(plan.backward_workspace))
                        .add(gradients);
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
  if (layer == layers() - 1) free(mine.hidden);
  if (layer > 0) free(buffers(layer - 1).hidden);
  grad_in_ = grad_out_;
  grad_out_ = -1;
}

OpIndex LayerWalk::backward(int layer, int micro_batch, std::span<const View> weights,
                            std::span<const View> gradients) {
  begin_backward(layer, micro_batch, weights);
  const OpIndex op = backward_piece(layer, 0, plan(layer).backward.count, weights, gradients);
  end_backward(layer);
  return op;
}

}  // namespace stepcast
