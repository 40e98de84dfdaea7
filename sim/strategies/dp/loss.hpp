#pragma once
// The loss of nn.DataParallel, in one of two places.
//
// Outside the module, criterion(model(x), y), PyTorch's recipe and the default: on GPU 0 alone.
//   gather     each GPU's logits into one tensor on GPU 0 (peer copies, each on its source's
//   stream) loss       GPU 0, over G x micro_batch sequences; the others have nothing to do
//   backward   of the loss on GPU 0, then gather's backward: a scatter of the gradient
// Inside forward (loss_in_forward; Hugging Face's models, given labels): on every GPU.
//   loss       each GPU, over its own sequences
//   gather     of the losses and, as they are outputs too, of all logits, which nobody reads
//   backward   a scatter of G numbers, then each GPU its own
//
// What the first means for GPU 0, example: GPT-2, 2 GPUs of 4 x 1024 tokens in fp32. One GPU's
// logits are 823 MB. GPU 0 holds 1.65 GB of log-probabilities and two gradients as large in the
// loss's backward: 4.94 GB at once, of which the other GPU holds 0.82. Source: PyTorch
// parallel/_functions.py (docs/sources.md 1.1). Tested by tests/unit/strategies/dp_test.cpp.

#include "sim/schedule/builder.hpp"
#include "sim/strategies/common/layer_walk.hpp"

namespace stepcast::dp {

class Loss {
 public:
  // `step.workload.loss_apart` must be set: the walk ends with the logits.
  Loss(ScheduleBuilder& builder, const TrainingStep& step, LayerWalk& walk, StreamIndex compute,
       CommIndex world);

  bool everywhere() const { return everywhere_; }
  bool on(bool root) const { return everywhere_ || root; }  // whether this GPU computes one

  // Of a GPU that computes a loss: its labels, and the loss once its logits are there.
  void load_labels(int micro_batch);
  void forward(int micro_batch);
  // Every GPU: outputs to GPU 0.
  void gather(bool root, int micro_batch);
  // Every GPU: backward up to the gradient of its logits, with which the walk's backward begins.
  void backward(bool root, int micro_batch);

 private:
  BufferIndex buffer(const char* name, BufferKind kind, Dtype dtype, Bytes bytes);
  void alloc(BufferIndex index) {
    if (index >= 0) builder_.alloc(index);
  }
  void free(BufferIndex index) {
    if (index >= 0) builder_.free(index);
  }
  View whole(BufferIndex index) const { return index < 0 ? View{} : builder_.whole(index); }
  View logits() const { return everywhere_ ? walk_.logits() : whole(gathered_); }
  void move(Name verb, CollectiveKind kind, Dtype dtype, std::int64_t elements, View reads,
            View writes);
  // `upstream`: the gradient of this loss, where it is one of several; else none.
  void compute_backward(View upstream);

  ScheduleBuilder& builder_;
  const TrainingStep& step_;
  LayerWalk& walk_;
  StreamIndex compute_;
  CommIndex world_;
  UnitIndex unit_;
  bool everywhere_;
  LossWork work_;         // of one GPU that computes a loss
  Bytes all_logits_ = 0;  // of all GPUs
  Range forward_, backward_;
  BufferIndex labels_ = -1, saved_ = -1, forward_workspace_ = -1, backward_workspace_ = -1;
  BufferIndex gathered_ = -1;  // GPU 0
  BufferIndex losses_ = -1;    // GPU 0: one number a GPU
  BufferIndex gradient_ = -1;  // of the logits that the loss is computed over
  BufferIndex part_ = -1;      // the others: their part of GPU 0's; of one loss a GPU one number
};

}  // namespace stepcast::dp
