#include "sim/strategies/common/layer_gradients.hpp"

#include "sim/strategies/common/layouts.hpp"

namespace stepcast {

LayerGradients::LayerGradients(ScheduleBuilder& builder, const TrainingStep& step, StreamIndex pool,
                               const std::string& prefix)
    : builder_(builder) {
  const Dtype dtype = step.precision.gradient;
  for (const Layer& layer : step.model.layers) {
    const Bytes bytes = step.model.parameter_elements(layer) * bytes_per_element(dtype);
    buffers_.push_back(bytes == 0 ? BufferIndex{-1}
                                  : builder.buffer(prefix + layer.name.str(), BufferKind::gradient,
                                                   dtype, bytes, pool));
    if (bytes > 0) whole_layout(builder, buffers_.back(), one_after_another(step.model, layer));
  }
}

void LayerGradients::alloc(int layer) {
  const BufferIndex buffer = buffers_[static_cast<std::size_t>(layer)];
  if (buffer >= 0) builder_.alloc(buffer);
}

ViewList LayerGradients::of(int layer) const { return of(std::span<const int>(&layer, 1)); }

ViewList LayerGradients::of(std::span<const int> layers) const {
  ViewList views;
  for (const int layer : layers) {
    const BufferIndex buffer = buffers_[static_cast<std::size_t>(layer)];
    if (buffer >= 0) views.add(builder_.whole(buffer));
  }
  return views;
}

void LayerGradients::free(std::span<const int> layers) {
  for (const int layer : layers) {
    const BufferIndex buffer = buffers_[static_cast<std::size_t>(layer)];
    if (buffer >= 0) builder_.free(buffer);
  }
}

}  // namespace stepcast
