// What the layers of a ResNet do for one micro-batch.
//
// Convolutions are implicit GEMMs (base/kernel.hpp) of 16 bit or fp32; everything between them is
// bound by memory, and with small images it is most of the step. Bytes, O elements out of a
// convolution of E bytes each:
//
//                       read     written
//   batch norm          2E O     E O       statistics, then the result
//   ReLU, in place      E O      E O
//   residual, in place  2E O     E O
//   their gradients:
//   ReLU                2E O     E O       gradient and result
//   batch norm          4E O     E O       sums over gradient and input, then the gradient
//   residual            2E I     E I       both branches' gradients of the input are added
//
// torch.compile (`fused_elementwise`) runs ReLU and residual in the batch norm's last kernel, and
// the ReLU's gradient in the norm's: its result is read with each of the two passes.
//
// Tensor cores read NHWC. PyTorch's tensors are NCHW unless `channels_last` turns them; then each
// convolution in tf32, fp16 or bf16 has a kernel before it for each operand and one behind it for
// the result (cuDNN's nchwToNhwcKernel and nhwcToNchwKernel), which read and write all of it:
//   forward: input, result; input gradient: gradient, result; weight gradient: gradient, input
// Weights are small beside them and left out. fp32 has kernels for NCHW, and torch.compile turns
// the tensors once by itself (inductor's layout_optimization).
//
// Kept for backward, for each convolution: its result (the norm's input), and the norm's result,
// which ReLU overwrites and the next convolution reads. The last norm of a block is overwritten by
// the sum and its ReLU, the block's output, which the next layer counts. A shortcut's norm is free
// after the sum. Example, ResNet-50's layer1.1 at 224 pixels: convolutions of 64, 64 and 256
// channels at 56 x 56: input 256, results 64 + 64 + 256, norms 64 + 64: 768 x 3,136 elements,
// 4,816,896 bytes an image in 16 bit.
//
// Batch norm runs in 16 bit under autocast too, with fp32 weights. Not counted: cuDNN's workspaces,
// the batch's means and variances (8 bytes a channel).
//
// Tested by tests/unit/models/resnet_test.cpp.

#include <algorithm>

#include "models/resnet.hpp"

namespace stepcast {
namespace {

struct Names {
  LinearNames convolution{"conv"}, shortcut{"downsample"}, stem{"conv1"}, classifier{"fc"};
  Name norm{"batch_norm"}, norm_backward{"batch_norm.backward"};
  Name relu{"relu"}, relu_backward{"relu.backward"};
  Name residual{"residual_add"}, add_gradients{"grad_add"};
  Name pool{"max_pool"}, pool_backward{"max_pool.backward"};
  Name average{"avg_pool"}, average_backward{"avg_pool.backward"};
  Name cast{"image_cast"};
  Name to_nhwc{"nchw_to_nhwc"}, to_nchw{"nhwc_to_nchw"};
};

const Names& names() {
  static const Names instance;
  return instance;
}

constexpr Bytes index_bytes = 8;  // max_pool2d keeps int64 indices

// A convolution and its norm, the `index`th of its layer.
class Pair {
 public:
  Pair(const Sizes& z, const ConvNorm& part, int index, const LinearNames& part_names)
      : z_(z),
        names_(part_names),
        shape_{z.batch, part.in, part.out, part.kernel, part.stride, part.in_side, part.out_side},
        weight_(tensors_each * index),
        fused_(z.workload->fused_elementwise),
        turns_(!z.workload->channels_last && !fused_ && z.dtype != Dtype::fp32) {}

  std::int64_t in() const { return shape_.in_elements(); }
  std::int64_t out() const { return shape_.out_elements(); }
  std::int64_t weights() const { return shape_.weights(); }

  // `added`: fused software adds the residual here. `relu`: ReLU follows.
  void forward(std::vector<Kernel>& list, bool relu, bool added) const {
    if (z_.casts) list.push_back(cast(names_.cast, z_.parameter, z_.element));
    if (turns_) list.push_back(turned(names().to_nhwc, in()));
    list.push_back(convolution(names_.forward, z_.dtype, shape_, ConvolutionPass::forward));
    if (turns_) list.push_back(turned(names().to_nchw, out()));
    const Bytes channels = z_.parameter * 2 * shape_.out_channels;
    const std::int64_t read = fused_ && added ? 3 : 2;
    // Statistics, result; eager: the count of batches goes up in a kernel of its own.
    list.push_back(memory_bound(names().norm, z_.dtype, z_.element * read * out() + channels,
                                z_.element * out(), fused_ ? 2 : 3));
    if (fused_) return;
    if (added) list.push_back(elementwise(z_, names().residual, 2 * out(), out()));
    if (relu) list.push_back(elementwise(z_, names().relu, out(), out()));
  }

  // `relu`: the gradient is that of the ReLU's result.
  void backward(std::vector<BackwardKernel>& list, bool relu, bool input_gradient) const {
    if (relu && !fused_) list.push_back(relu_backward());
    const Bytes channels = z_.parameter * 2 * shape_.out_channels;
    const std::int64_t read = relu && fused_ ? 6 : 4;
    BackwardKernel& norm = list.emplace_back();
    norm.kernel =
        memory_bound(names().norm_backward, z_.dtype, z_.element * read * out() + channels,
                     z_.element * out() + channels, 2);
    norm.ready = {weight_ + 1, weight_ + 2};
    if (input_gradient) {
      if (turns_) list.push_back(marks_nothing(turned(names().to_nhwc, out())));
      list.push_back(marks_nothing(
          convolution(names_.dgrad, z_.dtype, shape_, ConvolutionPass::input_gradient)));
      if (turns_) list.push_back(marks_nothing(turned(names().to_nchw, in())));
    }
    if (turns_) {
      list.push_back(marks_nothing(turned(names().to_nhwc, out())));
      list.push_back(marks_nothing(turned(names().to_nhwc, in())));
    }
    list.push_back(marks_nothing(
        convolution(names_.wgrad, z_.dtype, shape_, ConvolutionPass::weight_gradient)));
    if (z_.casts) {
      list.push_back(marks_nothing(cast(names_.grad_cast, z_.element, z_.parameter)));
    }
    list.back().ready.push_back(weight_);
  }

  BackwardKernel relu_backward() const {
    return marks_nothing(elementwise(z_, names().relu_backward, 2 * out(), out()));
  }

 private:
  static constexpr int tensors_each = 3;  // weight, norm's weight and bias

  Kernel cast(Name name, Bytes from, Bytes to) const {
    return memory_bound(name, z_.dtype, from * weights(), to * weights());
  }

  // A tensor in the other order of its dimensions.
  Kernel turned(Name name, std::int64_t elements) const {
    return elementwise(z_, name, elements, elements);
  }

  const Sizes& z_;
  const LinearNames& names_;
  Convolution shape_;
  int weight_;
  bool fused_;
  bool turns_;
};

Bytes weight_copies(const Sizes& z, std::int64_t weights) {
  return z.casts ? z.element * weights : 0;
}

}  // namespace

void stem_work(const Sizes& z, LayerWork& work) {
  const Pair conv(z, stem_of(z.image), 0, names().stem);
  const std::int64_t pooled_side = side_after(side_after(z.image, 2), 2);
  const std::int64_t pooled = z.batch * stem_channels * pooled_side * pooled_side;
  const Bytes indices = index_bytes * pooled;
  if (z.element < 4) {
    work.forward.push_back(
        memory_bound(names().cast, z.dtype, 4 * conv.in(), z.element * conv.in()));
  }
  conv.forward(work.forward, true, false);
  work.forward.push_back(
      memory_bound(names().pool, z.dtype, z.element * conv.out(), z.element * pooled + indices));
  // The pool's gradient is zero but where a maximum stood.
  work.backward.push_back(marks_nothing(memory_bound(
      names().pool_backward, z.dtype, z.element * pooled + indices, z.element * conv.out(), 2)));
  conv.backward(work.backward, true, false);

  const Bytes result = z.element * conv.out();
  const Bytes images = z.element < 4 ? z.element * conv.in() : 0;
  work.weight_copies = weight_copies(z, conv.weights());
  work.saved_activations = images + 2 * result + indices + work.weight_copies;
  work.backward_workspace = 2 * result;
  work.output = z.element * pooled;
}

void residual_work(const Sizes& z, std::int64_t number, LayerWork& work) {
  const ResidualBlock block = residual_block(*z.architecture, number, z.image);
  std::vector<Pair> path;
  int index = 0;
  for (const ConvNorm& part : block.path) path.emplace_back(z, part, index++, names().convolution);
  std::vector<Pair> shortcut;
  for (const ConvNorm& part : block.shortcut) {
    shortcut.emplace_back(z, part, index++, names().shortcut);
  }
  const Pair& last = path.back();
  const bool fused = z.workload->fused_elementwise;

  // The shortcut runs after the path, so fused software adds in its norm.
  for (const Pair& pair : path) {
    const bool ends = &pair == &last;
    pair.forward(work.forward, !ends || shortcut.empty(), ends && shortcut.empty());
  }
  for (const Pair& pair : shortcut) pair.forward(work.forward, true, true);

  if (!fused) work.backward.push_back(last.relu_backward());
  for (const Pair& pair : shortcut) pair.backward(work.backward, fused, true);
  for (std::size_t i = path.size(); i-- > 0;) {
    path[i].backward(work.backward, fused || i + 1 < path.size(), true);
  }
  const std::int64_t in = path.front().in();
  work.backward.push_back(marks_nothing(elementwise(z, names().add_gradients, 2 * in, in)));

  const Bytes e = z.element;
  std::int64_t kept = in;
  std::int64_t weights = 0;
  std::int64_t widest = 0;  // a convolution's input and result
  for (const Pair& pair : path) {
    kept += (&pair == &last ? 1 : 2) * pair.out();
    weights += pair.weights();
    widest = std::max(widest, pair.in() + pair.out());
  }
  for (const Pair& pair : shortcut) {
    kept += pair.out();
    weights += pair.weights();
  }
  const Bytes copies = weight_copies(z, weights);
  work.output = e * last.out();
  work.saved_activations = e * kept + copies;
  work.weight_copies = copies;
  work.forward_workspace = shortcut.empty() ? 0 : e * last.out();
  if (z.workload->checkpointing == Checkpointing::full) {
    work.recompute = work.forward;
    work.saved_activations = e * in;
    work.weight_copies = 0;
    work.recomputed_activations = e * (kept - in) + copies;
    work.forward_workspace += e * widest + copies;
  }
  // The gradient of the sum waits for the branch; beside it that of a result and of what it came
  // from.
  work.backward_workspace = e * (last.out() + widest);
  if (!shortcut.empty()) work.backward_workspace += e * in;
}

void image_head_work(const Sizes& z, LayerWork& work) {
  const std::int64_t blocks = z.architecture->layers;
  const std::int64_t side = residual_block(*z.architecture, blocks - 1, z.image).out_side;
  const std::int64_t in = z.batch * z.hidden * side * side;
  const std::int64_t pooled = z.batch * z.hidden;
  work.forward.push_back(elementwise(z, names().average, in, pooled));
  class_head_work(z, names().classifier, z.hidden, 0, work);
  work.backward.push_back(marks_nothing(elementwise(z, names().average_backward, pooled, in)));
  // The last block's ReLU needs its result, this layer's input.
  work.saved_activations += z.element * (in + pooled);
}

}  // namespace stepcast
