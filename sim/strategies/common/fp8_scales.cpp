#include "sim/strategies/common/fp8_scales.hpp"

#include "models/fp8.hpp"
#include "sim/strategies/common/clip.hpp"
#include "sim/strategies/common/view_list.hpp"

namespace stepcast {
namespace {

constexpr int history_steps = 16;  // amax_history_len of Composer and accelerate's examples
constexpr int numbers_a_weight = 3;
constexpr int number_bytes = 4;

const Name verb_forward("fp8_amax_forward");
const Name verb_backward("fp8_amax_backward");
const Name verb_update("fp8_scale_update");
const Name verb_largest("fp8_largest");
const Name verb_scales("fp8_scales");
const Name rule_delayed("fp8.delayed-scaling");
const Name rule_precompute("fp8.scales-after-the-optimizer");

int weights_of(const Model& model, const Layer& layer) {
  if (layer.kind != LayerKind::block) return 0;
  int count = 0;
  for (int i = 0; i < layer.parameter_count; ++i) {
    const auto index = static_cast<std::size_t>(layer.first_parameter + i);
    const std::vector<std::int64_t>& shape = model.parameters[index].shape;
    if (shape.size() == 2 && fits_fp8(shape[1], shape[0])) ++count;
  }
  return count;
}

}  // namespace

int fp8_weights(const Model& model, const WrapUnit& unit) {
  int count = 0;
  for (const int layer : unit.layers) {
    count += weights_of(model, model.layers[static_cast<std::size_t>(layer)]);
  }
  return count;
}

int fp8_weights(const Model& model) {
  int count = 0;
  for (const Layer& layer : model.layers) count += weights_of(model, layer);
  return count;
}

Bytes fp8_history_bytes(const Model& model) {
  return Bytes{number_bytes} * numbers_a_weight * history_steps * fp8_weights(model);
}

OpIndex reduce_delayed_scales(ScheduleBuilder& builder, const Model& model, StreamIndex compute,
                              CommIndex comm, BufferIndex history) {
  const std::int64_t weights = fp8_weights(model);
  const View all = builder.whole(history);
  // The newest row of the history.
  const ViewList forward(View{history, 0, 2 * number_bytes * weights});
  const ViewList backward(View{history, 2 * number_bytes * weights, number_bytes * weights});
  builder.rule(rule_delayed);
  if (comm >= 0) {
    builder.collective(verb_forward, CollectiveKind::all_reduce, comm, compute, Dtype::fp32,
                       2 * weights, Reduction::max, forward, forward);
    builder.collective(verb_backward, CollectiveKind::all_reduce, comm, compute, Dtype::fp32,
                       weights, Reduction::max, backward, backward);
  }
  // Largest of the history, scales, the history turned by one: a fused kernel for each direction.
  const OpIndex op = builder.one_kernel(
      verb_update, compute, memory_bound(verb_update, Dtype::fp32, all.bytes, all.bytes, 2),
      ViewList(all), ViewList(all));
  builder.rule(Name());
  return op;
}

OpIndex precompute_scales(ScheduleBuilder& builder, const TrainingStep& step, StreamIndex compute,
                          CommIndex comm, std::span<const View> shards) {
  const std::int64_t weights = fp8_weights(step.model);
  Bytes read = 0;
  for (const View& shard : shards) read += shard.bytes;
  const BufferIndex scales = step_buffer(builder, verb_scales, BufferKind::other, Dtype::fp32,
                                         number_bytes * weights, compute);
  builder.alloc(scales);
  const View all = builder.whole(scales);
  builder.rule(rule_precompute);
  OpIndex op = builder.one_kernel(
      verb_largest, compute,
      memory_bound(verb_largest, step.precision.parameter, read, all.bytes,
                   static_cast<int>(foreach_launches(
                       read / bytes_per_element(step.precision.parameter), weights)) +
                       1),
      shards, ViewList(all));
  if (comm >= 0) {
    op = builder.collective(verb_scales, CollectiveKind::all_reduce, comm, compute, Dtype::fp32,
                            weights, Reduction::max, ViewList(all), ViewList(all));
  }
  builder.free(scales);
  builder.rule(Name());
  return op;
}

}  // namespace stepcast
