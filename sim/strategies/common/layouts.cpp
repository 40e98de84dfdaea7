#include "sim/strategies/common/layouts.hpp"

#include <numeric>

namespace stepcast {

std::vector<Placed> one_after_another(const Model& model, std::span<const int> parameters) {
  std::vector<Placed> placed;
  placed.reserve(parameters.size());
  std::int64_t at = 0;
  for (const int parameter : parameters) {
    const std::int64_t elements = model.parameters[static_cast<std::size_t>(parameter)].elements();
    placed.push_back({parameter, elements, at, 0});
    at += elements;
  }
  return placed;
}

std::vector<Placed> one_after_another(const Model& model, const Layer& layer) {
  std::vector<int> parameters(static_cast<std::size_t>(layer.parameter_count));
  std::iota(parameters.begin(), parameters.end(), layer.first_parameter);
  return one_after_another(model, parameters);
}

void whole_layout(ScheduleBuilder& builder, BufferIndex buffer, std::span<const Placed> placed) {
  builder.layout(buffer, Cut::whole, Axis::world, 0, placed);
}

}  // namespace stepcast
