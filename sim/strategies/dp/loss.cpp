#include "sim/strategies/dp/loss.hpp"

#include "sim/strategies/common/view_list.hpp"

namespace stepcast::dp {
namespace {

const Name verb_labels("labels");
const Name verb_compute("compute");
const Name verb_gather("gather");
const Name verb_gather_losses("gather_losses");
const Name verb_scatter("scatter");
const Name rule_gpu0("dp.loss-on-gpu0");
const Name rule_forward("dp.loss-in-forward");

// What one loss is computed over.
Workload of_a_loss(const TrainingStep& step) {
  Workload workload = step.workload;
  if (!step.strategy.loss_in_forward) workload.micro_batch *= step.mesh.world_size();
  return workload;
}

}  // namespace

Loss::Loss(ScheduleBuilder& builder, const TrainingStep& step, LayerWalk& walk, StreamIndex compute,
           CommIndex world)
    : builder_(builder),
      step_(step),
      walk_(walk),
      compute_(compute),
      world_(world),
      unit_(builder.unit("loss")),
      everywhere_(step.strategy.loss_in_forward),
      work_(loss_of(step.model, of_a_loss(step))),
      forward_(builder.kernels(work_.forward)),
      backward_(builder.kernels(work_.backward)) {
  const int gpus = step.mesh.world_size();
  const Dtype dtype = step.workload.compute_dtype;
  all_logits_ = work_.logits * (everywhere_ ? gpus : 1);
  labels_ =
      buffer("labels", BufferKind::input, Dtype::int64, label_bytes(step.model, of_a_loss(step)));
  saved_ = buffer("saved.loss", BufferKind::logits, dtype, work_.saved);
  forward_workspace_ =
      buffer("forward_workspace.loss", BufferKind::logits, dtype, work_.forward_workspace);
  backward_workspace_ =
      buffer("backward_workspace.loss", BufferKind::logits, dtype, work_.backward_workspace);
  gathered_ = buffer("gathered_logits", BufferKind::logits, dtype, all_logits_);
  gradient_ = buffer("logits_gradient", BufferKind::logits, dtype, work_.logits);
  if (everywhere_) {
    losses_ = buffer("losses", BufferKind::other, Dtype::fp32, Bytes{4} * gpus);
    part_ = buffer("loss_gradient", BufferKind::other, Dtype::fp32, 4);
  } else {
    part_ = buffer("logits_gradient_part", BufferKind::logits, dtype, work_.logits / gpus);
  }
}

// None of no bytes: a model of plain tensors has no loss.
BufferIndex Loss::buffer(const char* name, BufferKind kind, Dtype dtype, Bytes bytes) {
  return bytes > 0 ? builder_.buffer(name, kind, dtype, bytes, compute_) : BufferIndex{-1};
}

void Loss::load_labels(int micro_batch) {
  builder_.at(Phase::load, -1, micro_batch);
  builder_.alloc(labels_);
  const View labels = builder_.whole(labels_);
  builder_.copy(verb_labels, CopyKind::host_to_device, compute_, labels.bytes, {},
                ViewList(labels));
}

void Loss::forward(int micro_batch) {
  builder_.at(Phase::loss, unit_, micro_batch);
  builder_.rule(everywhere_ ? rule_forward : rule_gpu0);
  alloc(saved_);
  alloc(forward_workspace_);
  const ViewList writes = ViewList().add(whole(saved_)).add(whole(forward_workspace_));
  walk_.ran_on_compute(builder_.compute(verb_compute, compute_, forward_,
                                        ViewList(logits()).add(whole(labels_)), writes));
  free(forward_workspace_);
  if (!everywhere_ && !work_.keeps_logits) free(gathered_);
}

void Loss::move(Name verb, CollectiveKind kind, Dtype dtype, std::int64_t elements, View reads,
                View writes) {
  builder_.rule(everywhere_ ? rule_forward : rule_gpu0);
  builder_.collective(verb, kind, world_, compute_, dtype, elements, Reduction::none,
                      ViewList(reads), ViewList(writes), 0);
}

void Loss::gather(bool root, int micro_batch) {
  builder_.at(Phase::loss, unit_, micro_batch);
  const Dtype dtype = step_.workload.compute_dtype;
  if (root) alloc(gathered_);
  move(verb_gather, CollectiveKind::gather, dtype, all_logits_ / bytes_per_element(dtype),
       walk_.logits(), root ? whole(gathered_) : View{});
  if (!everywhere_ || !work_.keeps_logits) walk_.drop_logits();
  if (!everywhere_) return;
  if (root) {
    free(gathered_);
    alloc(losses_);
  }
  move(verb_gather_losses, CollectiveKind::gather, Dtype::fp32, step_.mesh.world_size(), {},
       root ? whole(losses_) : View{});
}

void Loss::compute_backward(View upstream) {
  alloc(gradient_);
  alloc(backward_workspace_);
  ViewList reads = ViewList(whole(saved_)).add(whole(labels_));
  if (work_.keeps_logits) reads.add(logits());
  reads.add(upstream);
  const ViewList writes = ViewList(whole(gradient_)).add(whole(backward_workspace_));
  walk_.ran_on_compute(builder_.compute(verb_compute, compute_, backward_, reads, writes));
  free(backward_workspace_);
  free(saved_);
  free(labels_);
}

void Loss::backward(bool root, int micro_batch) {
  builder_.at(Phase::backward, unit_, micro_batch);
  builder_.rule(everywhere_ ? rule_forward : rule_gpu0);
  if (everywhere_) {
    if (!root) alloc(part_);
    move(verb_scatter, CollectiveKind::scatter, Dtype::fp32, step_.mesh.world_size(),
         root ? whole(losses_) : View{}, root ? View{} : whole(part_));
    compute_backward({root ? losses_ : part_, 0, 4});
    free(root ? losses_ : part_);
    if (work_.keeps_logits) walk_.drop_logits();
    walk_.begin_backward_with(gradient_);
    return;
  }
  if (root) {
    compute_backward({});
    if (work_.keeps_logits) free(gathered_);
  } else {
    alloc(part_);
  }
  // GPU 0's own part is a view of the whole.
  const Dtype dtype = step_.workload.compute_dtype;
  move(verb_scatter, CollectiveKind::scatter, dtype, all_logits_ / bytes_per_element(dtype),
       root ? whole(gradient_) : View{}, root ? View{} : whole(part_));
  walk_.begin_backward_with(root ? gradient_ : part_);
}

}  // namespace stepcast::dp
