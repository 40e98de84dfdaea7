#include "sim/strategies/common/optimizer.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace stepcast {
namespace {

constexpr std::int64_t tensors_a_launch = 36;
constexpr std::int64_t elements_a_launch = std::int64_t{320} * 65536;
constexpr double foreach_traffic = 2.25;  // between the 2 and 2.5 of docs/sources.md 7.4
constexpr int foreach_passes = 12;        // arithmetic operations of AdamW, a launch each

}  // namespace

Bytes optimizer_state_bytes(const Precision& precision) {
  return 2 * bytes_per_element(precision.moments) + (precision.master_copy ? 4 : 0);
}

Kernel adamw_kernel(const Precision& precision, std::int64_t elements, std::int64_t tensors,
                    bool fused) {
  const Bytes parameter = bytes_per_element(precision.parameter);
  const Bytes state = optimizer_state_bytes(precision);
  // The gradient the optimizer sees has the parameter's dtype.
  const Bytes read = parameter + state + (precision.master_copy ? 0 : parameter);
  const Bytes written = parameter + state;
  const std::int64_t launches =
      std::max(ceil_div(std::max<std::int64_t>(tensors, 1), tensors_a_launch),
               ceil_div(std::max<std::int64_t>(elements, 1), elements_a_launch));
  static const Name fused_name("adamw_fused");
  static const Name foreach_name("adamw_foreach");
  if (fused) {
    return memory_bound(fused_name, precision.parameter, read * elements, written * elements,
                        static_cast<int>(launches));
  }
  const auto scaled = [&](Bytes bytes) {
    return static_cast<Bytes>(
        std::llround(foreach_traffic * static_cast<double>(bytes * elements)));
  };
  return memory_bound(foreach_name, precision.parameter, scaled(read), scaled(written),
                      static_cast<int>(launches) * foreach_passes);
}

OpIndex optimizer_step(ScheduleBuilder& builder, const TrainingStep& step, StreamIndex compute,
                       std::int64_t elements, std::span<const View> parameters,
                       std::span<const View> gradients, std::span<const View> states) {
  static const Name cost("optimizer_step");
  static const Name verb("adamw");
  builder.at(Phase::optimizer);
  builder.host_work(cost, 1);
  if (step.precision.compute == Dtype::fp16) {
    static const Name unscale("unscale");
    static const Name rule("amp.found-inf-read-by-the-host");
    const Bytes bytes = elements * bytes_per_element(step.precision.parameter);
    const Kernel scaled = memory_bound(unscale, step.precision.parameter, bytes, bytes);
    builder.rule(rule);
    builder.one_kernel(unscale, compute, scaled, gradients, gradients);
    builder.host_wait_stream(compute);
    builder.rule(Name());
  }
  const Kernel kernel =
      adamw_kernel(step.precision, elements,
                   static_cast<std::int64_t>(step.model.parameters.size()), step.fused_optimizer);
  std::vector<View> reads(parameters.begin(), parameters.end());
  reads.insert(reads.end(), gradients.begin(), gradients.end());
  reads.insert(reads.end(), states.begin(), states.end());
  std::vector<View> writes(parameters.begin(), parameters.end());
  writes.insert(writes.end(), states.begin(), states.end());
  return builder.one_kernel(verb, compute, kernel, reads, writes);
}

}  // namespace stepcast
