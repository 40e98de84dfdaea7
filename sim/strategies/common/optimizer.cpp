#include "sim/strategies/common/optimizer.hpp"

#include <algorithm>
#include <cmath>

#include "sim/strategies/common/view_list.hpp"

namespace stepcast {
namespace {

constexpr double foreach_traffic = 2.25;  // between the 2 and 2.5 of docs/sources.md 7.4
constexpr int foreach_passes = 12;        // arithmetic operations of AdamW, a launch each

const Name cost_step("optimizer_step");
const Name verb_create("create_state");
const Name verb_unscale("unscale");
const Name rule_found_inf("amp.found-inf-read-by-the-host");
const Name name_temporary("optimizer_temporary");

// Tensors the size of the parameters that the optimizer keeps.
int moments_of(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::adamw_fused:
    case OptimizerKind::adamw_foreach:
    case OptimizerKind::adamw_unfused: return 2;
    case OptimizerKind::sgd_momentum: return 1;
    case OptimizerKind::sgd: return 0;
  }
  return 0;
}

Name verb_of(OptimizerKind kind) {
  static const Name adamw("adamw");
  static const Name sgd("sgd");
  return moments_of(kind) == 2 ? adamw : sgd;
}

// Bytes an element: of the gradient, the weight that is updated (the master copy where there is
// one), one moment, and a 16-bit parameter written beside the master copy.
struct Sizes {
  Bytes gradient = 0, weight = 0, moment = 0, copy = 0;
};

Kernel update(OptimizerKind kind, Dtype dtype, const Sizes& b, std::int64_t elements,
              std::int64_t tensors) {
  static const Name fused("adamw_fused");
  static const Name foreach ("adamw_foreach");
  static const Name unfused("adamw_unfused");
  static const Name momentum("sgd_momentum");
  static const Name sgd("sgd");
  const auto a_pass = static_cast<int>(foreach_launches(elements, tensors));
  const auto make = [&](Name name, Bytes read, Bytes written, int launches) {
    return memory_bound(name, dtype, read * elements, written * elements, launches);
  };
  const Bytes adam_read = b.gradient + b.weight + 2 * b.moment;
  const Bytes adam_written = b.weight + 2 * b.moment + b.copy;
  const auto in_passes = [&](Name name, int launches) {
    const auto scaled = [&](Bytes bytes) {
      return static_cast<Bytes>(
          std::llround(foreach_traffic * static_cast<double>(bytes * elements)));
    };
    return memory_bound(name, dtype, scaled(adam_read), scaled(adam_written), launches);
  };
  switch (kind) {
    case OptimizerKind::adamw_fused: return make(fused, adam_read, adam_written, a_pass);
    case OptimizerKind::adamw_foreach: return in_passes(foreach, a_pass * foreach_passes);
    case OptimizerKind::adamw_unfused:
      return in_passes(unfused, static_cast<int>(tensors) * foreach_passes);
    case OptimizerKind::sgd_momentum:
      return make(momentum, 3 * b.moment + b.gradient + b.weight, 2 * b.moment + b.weight + b.copy,
                  3 * a_pass);
    case OptimizerKind::sgd: return make(sgd, b.gradient + b.weight, b.weight + b.copy, a_pass);
  }
  STEPCAST_ASSERT(false, "an optimizer without a kernel");
}

}  // namespace

Bytes optimizer_state_bytes(const TrainingStep& step) {
  return moments_of(step.optimizer) * bytes_per_element(step.precision.moments) +
         (step.precision.master_copy ? 4 : 0);
}

Kernel update_kernel(OptimizerKind kind, const Precision& precision, std::int64_t elements,
                     std::int64_t tensors) {
  // The gradient the optimizer sees has the parameter's dtype.
  const Bytes parameter = bytes_per_element(precision.parameter);
  const Sizes sizes{parameter, precision.master_copy ? 4 : parameter,
                    bytes_per_element(precision.moments), precision.master_copy ? parameter : 0};
  return update(kind, precision.parameter, sizes, elements, tensors);
}

Kernel update_fp32_kernel(OptimizerKind kind, const Precision& precision, std::int64_t elements) {
  return update(kind, Dtype::fp32, {4, 4, bytes_per_element(precision.moments), 0}, elements, 1);
}

bool created_in_first_step(const TrainingStep& step) {
  return step.first_step && !step.precision.master_copy && optimizer_state_bytes(step) > 0;
}

BufferIndex declare_optimizer_state(ScheduleBuilder& builder, const TrainingStep& step, Name name,
                                    std::int64_t elements, StreamIndex compute) {
  const Bytes bytes = elements * optimizer_state_bytes(step);
  return created_in_first_step(step)
             ? builder.buffer(name, BufferKind::optimizer_state, step.precision.moments, bytes,
                              compute)
             : builder.persistent(name, BufferKind::optimizer_state, step.precision.moments, bytes);
}

void create_optimizer_state(ScheduleBuilder& builder, const TrainingStep& step, StreamIndex compute,
                            std::span<const View> states) {
  if (!created_in_first_step(step)) return;
  builder.at(Phase::optimizer);
  Bytes bytes = 0;
  for (const View& state : states) {
    builder.alloc(state.buffer);
    bytes += state.bytes;
  }
  const auto tensors = static_cast<int>(step.model.parameters.size());
  builder.one_kernel(verb_create, compute,
                     memory_bound(verb_create, step.precision.moments, 0, bytes,
                                  moments_of(step.optimizer) * tensors),
                     {}, states);
}

OpIndex optimizer_step(ScheduleBuilder& builder, const TrainingStep& step, StreamIndex compute,
                       std::int64_t elements, std::span<const View> parameters,
                       std::span<const View> gradients, std::span<const View> states,
                       const NormScope& scope) {
  const Bytes parameter = bytes_per_element(step.precision.parameter);
  builder.at(Phase::optimizer);
  builder.host_work(cost_step, 1);
  const bool scaled = step.precision.compute == Dtype::fp16;
  if (scaled) {
    const Bytes bytes = elements * parameter;
    builder.rule(rule_found_inf);
    builder.one_kernel(verb_unscale, compute,
                       memory_bound(verb_unscale, step.precision.parameter, bytes, bytes),
                       gradients, gradients);
    builder.rule(Name());
  }
  if (step.clip_grad_norm) clip_gradients(builder, step, compute, elements, gradients, scope);
  if (scaled) {
    builder.rule(rule_found_inf);
    builder.host_wait_stream(compute);
    builder.rule(Name());
  }
  std::vector<View> reads(parameters.begin(), parameters.end());
  reads.insert(reads.end(), gradients.begin(), gradients.end());
  reads.insert(reads.end(), states.begin(), states.end());
  std::vector<View> writes(parameters.begin(), parameters.end());
  writes.insert(writes.end(), states.begin(), states.end());

  // What the passes hand each other: the square root of the second moment.
  BufferIndex temporary = -1;
  if (step.optimizer == OptimizerKind::adamw_foreach ||
      step.optimizer == OptimizerKind::adamw_unfused) {
    std::int64_t most = elements;
    if (step.optimizer == OptimizerKind::adamw_unfused) {
      std::int64_t largest = 0;
      for (const Parameter& p : step.model.parameters) largest = std::max(largest, p.elements());
      // This rank's part of it.
      most = std::llround(static_cast<double>(largest) * static_cast<double>(elements) /
                          static_cast<double>(step.model.parameter_elements()));
    }
    temporary = step_buffer(builder, name_temporary, BufferKind::workspace, step.precision.moments,
                            most * bytes_per_element(step.precision.moments), compute);
    builder.alloc(temporary);
    writes.push_back(builder.whole(temporary));
  }
  const OpIndex op = builder.one_kernel(
      verb_of(step.optimizer), compute,
      update_kernel(step.optimizer, step.precision, elements, tensors_of(step, scope)), reads,
      writes);
  if (temporary >= 0) builder.free(temporary);
  return op;
}

}  // namespace stepcast
