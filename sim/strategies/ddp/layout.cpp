#include "sim/strategies/ddp/layout.hpp"

namespace stepcast::ddp {

Mode mode_of(const StrategyOptions& options) {
  if (options.bucket_rule == BucketRule::pytorch_1_4) return Mode::pytorch_1_4;
  if (options.static_graph) return Mode::static_graph;  // it wins over find_unused_parameters
  return options.find_unused_parameters ? Mode::find_unused : Mode::standard;
}

std::vector<Iteration> iterations(const StrategyOptions& options, bool first_steps) {
  static const Name first("first"), second("second"), third("third"), steady("steady");
  if (!first_steps) return {{steady, 3, false, false}};
  switch (mode_of(options)) {
    case Mode::standard:
      return {{first, 0, false, false}, {second, 1, true, false}, {steady, 2, false, false}};
    case Mode::static_graph:
      return {{first, 0, false, true},
              {second, 1, false, false},
              {third, 2, true, false},
              {steady, 3, false, false}};
    case Mode::find_unused:
    case Mode::pytorch_1_4: break;
  }
  return {{first, 0, false, false}, {steady, 1, false, false}};
}

Limits limits_of(const StrategyOptions& options) {
  Limits limits =
      options.bucket_caps_mib.empty()
          ? limits_for(options.bucket_cap_mib.value_or(25.0), options.bucket_cap_mib.has_value(),
                       options.bucket_rule != BucketRule::current)
          : limits_from_list(options.bucket_caps_mib);
  if (options.first_bucket_mib) {
    limits.front() = limits_for(*options.first_bucket_mib, true).front();
  }
  return limits;
}

std::vector<Tensor> gradient_tensors(const TrainingStep& step) {
  std::vector<Tensor> tensors;
  tensors.reserve(step.model.parameters.size());
  for (const Parameter& parameter : step.model.parameters) {
    tensors.push_back({parameter.elements() * bytes_per_element(step.precision.gradient),
                       step.precision.gradient, false});
  }
  return tensors;
}

std::vector<Bucket> layout(const TrainingStep& step, std::span<const int> ready_order,
                           int iteration) {
  return buckets_of_iteration(mode_of(step.strategy), iteration, gradient_tensors(step),
                              ready_order, limits_of(step.strategy),
                              step.strategy.small_last_bucket);
}

}  // namespace stepcast::ddp
