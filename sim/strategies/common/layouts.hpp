#pragma once
// Layouts (sim/schedule/layout.hpp) that several strategies declare.

#include <span>

#include "models/model.hpp"
#include "sim/schedule/builder.hpp"

namespace stepcast {

// Tensors one after the other, from `at` elements on.
std::vector<Placed> one_after_another(const Model& model, std::span<const int> parameters);
std::vector<Placed> one_after_another(const Model& model, const Layer& layer);

// The buffer holds these tensors and nothing else.
void whole_layout(ScheduleBuilder& builder, BufferIndex buffer, std::span<const Placed> placed);

}  // namespace stepcast
