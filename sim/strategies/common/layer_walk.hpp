#pragma once
// The compute of a step, the same under every strategy: what each layer's forward, recompute and
// backward read and write, and the activations that live in between. A strategy walks the layers
// and puts its own ops (gathers, buckets, waits) around these.
//
//   forward(i):   alloc hidden.i, saved.i        compute    hidden.(i-1), weights -> hidden.i,
//   saved.i backward(i):  [recompute.i]                  compute    grad of hidden.i -> grad of
//   hidden.(i-1)
//                 free saved.i, hidden.(i-1)
//
// hidden.i, the output of layer i, is also what layer i+1 saves of its input; Model counts it with
// the saved activations of i+1, here it is a buffer of its own so that it is not counted twice.
// With full checkpointing nothing else survives the forward.
//
// Equal layers share one kernel list in the schedule (Layer::shape_class), so cost and size depend
// on the number of distinct layers. Tested by tests/unit/strategies/layer_walk_test.cpp.

#include <span>
#include <string>
#include <vector>

#include "sim/schedule/builder.hpp"
#include "sim/strategies/common/loader.hpp"
#include "sim/strategies/common/view_list.hpp"
#include "sim/strategies/strategy.hpp"

namespace stepcast {

class LayerWalk {
 public:
  // loader: a stream that copies the inputs to the GPU beside compute, into a buffer that lives for
  // the micro-batch; without one (-1) the compute stream does, into one that stays.
  LayerWalk(ScheduleBuilder& builder, const TrainingStep& step, StreamIndex compute,
            StreamIndex inputs = -1);

  int layers() const { return static_cast<int>(step_.model.layers.size()); }
  const LayerWork& work(int layer) const { return plan(layer).work; }
  UnitIndex unit(int layer) const { return units_[static_cast<std::size_t>(layer)]; }

  // The main lane takes a micro-batch from the loader: token ids or images, and labels (none where
  // the loss is apart) come to the GPU.
  void load_inputs(int micro_batch);
  // With a stream of their own: the end of the inputs, once backward is issued.
  void drop_inputs();

  // `weights` are the views of the layer's parameters, a tied one included.
  void forward(int layer, int micro_batch, std::span<const View> weights);

  // The same in pieces of its kernel list (ZeRO-3 gathers module by module).
  void begin_forward(int layer, int micro_batch);
  void forward_piece(int layer, int first_kernel, int kernel_count, std::span<const View> weights);
  void end_forward(int layer);

  // sync_after_forward: the loss goes to the host, which waits for it (loss.item()), so that
  // nothing of the backward is issued before the forward is done.
  void read_loss(int micro_batch);

  // The layer's forward again, under checkpointing. begin_backward does it where nobody did.
  bool recomputes(int layer) const { return plan(layer).recompute.count > 0; }
  void recompute(int layer, int micro_batch, std::span<const View> weights);

  // Backward of a layer is begun, run in one or more pieces of its kernel list (DDP cuts it where a
  // bucket is complete), and ended.
  void begin_backward(int layer, int micro_batch, std::span<const View> weights);
  OpIndex backward_piece(int layer, int first_kernel, int kernel_count,
                         std::span<const View> weights, std::span<const View> gradients);
  void end_backward(int layer);

  // The whole list in one piece.
  OpIndex backward(int layer, int micro_batch, std::span<const View> weights,
                   std::span<const View> gradients);

  // Workload::loss_apart: the logits, made by the last layer's forward (of no bytes where the model
  // has no head) and freed by the caller, and their gradient, with which backward begins and which
  // the walk frees.
  View logits() const;
  void drop_logits();
  void begin_backward_with(BufferIndex gradient) { grad_in_ = gradient; }

  // The ranks whose fp8 scales are one (common/fp8_scales.hpp); -1: this rank alone.
  void share_scales_over(CommIndex comm) { scales_over_ = comm; }

  // The layer that registers a tied head's parameter; -1 where nothing is tied.
  int tied_owner() const { return tied_owner_; }

  OpIndex last_compute() const { return last_compute_; }
  // A kernel of the strategy's own (a copy, a cast, a division), named as the kernel is.
  OpIndex run(StreamIndex stream, const Kernel& kernel, std::span<const View> reads,
              std::span<const View> writes);
  // The strategy ran something on the compute stream: later waits on "now" mean this op.
  void ran_on_compute(OpIndex op) { last_compute_ = op; }

 private:
  struct ClassPlan {
    bool known = false;
    LayerWork work;
    Range forward, recompute, backward;
    std::vector<BufferIndex> forward_workspace;  // none, one, or its tensors
    std::vector<BufferIndex> backward_workspace;
  };
  struct LayerBuffers {
    BufferIndex hidden = -1;      // the layer's output
    BufferIndex saved = -1;       // kept for backward besides its input
    BufferIndex recomputed = -1;  // made again by the recompute
  };

  const ClassPlan& plan(int layer) const {
    return plans_[static_cast<std::size_t>(
        step_.model.layers[static_cast<std::size_t>(layer)].shape_class)];
  }
  LayerBuffers& buffers(int layer) { return buffers_[static_cast<std::size_t>(layer)]; }
  std::vector<BufferIndex> workspace(const std::string& name, BufferKind kind, Bytes bytes,
                                     Bytes tensor);
  void find_tied_parameter();
  View whole_or_none(BufferIndex buffer) const;
  bool waits_for_tied(int layer) const { return tied_gradient_ >= 0 && layer == tied_owner_; }
  bool feeds_tied(int layer) const;
  BufferIndex input_of(int layer) const;
  void alloc(BufferIndex buffer) {
    if (buffer >= 0) builder_.alloc(buffer);
  }
  void free(BufferIndex buffer) {
    if (buffer >= 0) builder_.free(buffer);
  }
  void alloc(const std::vector<BufferIndex>& buffers) {
    for (const BufferIndex buffer : buffers) builder_.alloc(buffer);
  }
  void free(const std::vector<BufferIndex>& buffers) {
    for (const BufferIndex buffer : buffers) builder_.free(buffer);
  }
  void add_whole(ViewList& list, const std::vector<BufferIndex>& buffers) const {
    for (const BufferIndex buffer : buffers) list.add(whole_or_none(buffer));
  }

  ScheduleBuilder& builder_;
  const TrainingStep& step_;
  StreamIndex compute_;
  StreamIndex input_stream_;
  Loader loader_;
  std::vector<ClassPlan> plans_;       // by shape_class
  std::vector<LayerBuffers> buffers_;  // by layer
  std::vector<UnitIndex> units_;       // by layer
  BufferIndex inputs_ = -1;
  // A tied head's weight gradient waits here for the embedding's, which is added to it.
  BufferIndex tied_gradient_ = -1;
  int tied_owner_ = -1;                    // the layer that registers the tied parameter
  BufferIndex grad_in_ = -1;               // gradient of the current layer's output; -1 at the loss
  BufferIndex grad_out_ = -1;              // gradient of its input; -1 at the embedding
  std::vector<BufferIndex> grad_buffers_;  // two, used in turn
  int grad_turn_ = 0;
  int micro_batch_ = 0;
  int recomputed_ = -1;  // layer whose forward has been run again for the coming backward
  OpIndex last_compute_ = -1;
  BufferIndex scale_history_ = -1;  // fp8 te_delayed
  CommIndex scales_over_ = -1;
};

}  // namespace stepcast
