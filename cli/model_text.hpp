#pragma once
// A model as `stepcast show model` and `stepcast import model` print it.

#include <string>

#include "models/model.hpp"

namespace stepcast::cli {

std::string model_text(const Model& model);

}  // namespace stepcast::cli
