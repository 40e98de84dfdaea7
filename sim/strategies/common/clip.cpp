#include "sim/strategies/common/clip.hpp"

#include <algorithm>
#include <vector>

#include "sim/strategies/common/view_list.hpp"

namespace stepcast {
namespace {

constexpr std::int64_t tensors_a_launch = 36;
constexpr std::int64_t elements_a_launch = std::int64_t{320} * 65536;

const Name cost_clip("clip_grad_norm");
const Name cost_dtensor("dtensor_foreach");
const Name verb_norms("gradient_norms");
const Name verb_norm("total_norm");
const Name verb_all_reduce("norm_all_reduce");
const Name verb_coefficient("clip_coefficient");
const Name verb_scale("clip_scale");
const Name rule_clip("clip.no-host-read");

}  // namespace

std::int64_t foreach_launches(std::int64_t elements, std::int64_t tensors) {
  return std::max(ceil_div(std::max<std::int64_t>(tensors, 1), tensors_a_launch),
                  ceil_div(std::max<std::int64_t>(elements, 1), elements_a_launch));
}

std::int64_t tensors_of(const TrainingStep& step, const NormScope& scope) {
  if (scope.tensors > 0) return scope.tensors;
  return static_cast<std::int64_t>(step.model.parameters.size());
}

BufferIndex step_buffer(ScheduleBuilder& builder, Name name, BufferKind kind, Dtype dtype,
                        Bytes bytes, StreamIndex pool) {
  const std::vector<Buffer>& buffers = builder.peek().buffers;
  for (std::size_t i = buffers.size(); i-- > 0;) {
    if (buffers[i].name == name) return static_cast<BufferIndex>(i);
  }
  return builder.buffer(name, kind, dtype, bytes, pool);
}

void clip_gradients(ScheduleBuilder& builder, const TrainingStep& step, StreamIndex compute,
                    std::int64_t elements, std::span<const View> gradients,
                    const NormScope& scope) {
  const Dtype dtype = step.precision.parameter;  // of the gradients that the optimizer sees
  const Bytes bytes = elements * bytes_per_element(dtype);
  const std::int64_t tensors = tensors_of(step, scope);
  const auto a_pass =
      static_cast<int>(scope.looped ? tensors : foreach_launches(elements, tensors));
  const bool sums = scope.comm >= 0;

  builder.rule(rule_clip);
  builder.host_work(cost_clip, 1);
  if (scope.dtensors) builder.host_work(cost_dtensor, static_cast<int>(tensors));
  // The last four bytes are the total norm and then the coefficient.
  const BufferIndex norms =
      step_buffer(builder, verb_norms, BufferKind::other, Dtype::fp32, 4 * tensors + 4, compute);
  builder.alloc(norms);
  const View each{norms, 0, 4 * tensors};
  const ViewList total(View{norms, 4 * tensors, 4});
  // foreach has a second kernel that adds up the chunks of each tensor.
  builder.one_kernel(
      verb_norms, compute,
      memory_bound(verb_norms, dtype, bytes, each.bytes, a_pass + (scope.looped ? 0 : 1)),
      gradients, ViewList(each));
  builder.one_kernel(verb_norm, compute,
                     memory_bound(verb_norm, Dtype::fp32, each.bytes, 4, sums ? 3 : 2),
                     ViewList(each), total);
  if (sums) {
    builder.collective(verb_all_reduce, CollectiveKind::all_reduce, scope.comm, compute,
                       Dtype::fp32, 1, Reduction::sum, total, total);
  }
  builder.one_kernel(verb_coefficient, compute,
                     memory_bound(verb_coefficient, Dtype::fp32, 4, 4, sums ? 4 : 3), total, total);
  if (scope.dtensors) builder.host_work(cost_dtensor, static_cast<int>(tensors));
  std::vector<View> scaled(gradients.begin(), gradients.end());
  scaled.push_back({norms, 4 * tensors, 4});
  builder.one_kernel(verb_scale, compute, memory_bound(verb_scale, dtype, bytes, bytes, a_pass),
                     scaled, gradients);
  builder.free(norms);
  builder.rule(Name());
}

}  // namespace stepcast
