#pragma once
// ResNet-50's 161 tensors as DDP sees them, and the order in which backward makes their gradients
// ready.

#include <vector>

#include "models/model.hpp"
#include "sim/strategies/ddp/buckets.hpp"

namespace stepcast::testing {

struct ResNet50 {
  std::vector<ddp::Tensor> tensors;
  std::vector<int> ready;

  ResNet50() {
    const Model model = load_model("resnet-50");
    for (const Parameter& parameter : model.parameters) {
      tensors.push_back({4 * parameter.elements(), Dtype::fp32, false});
    }
    for (std::size_t i = model.layers.size(); i-- > 0;) {
      for (const BackwardKernel& k : work_of(model, static_cast<int>(i), {}).backward) {
        for (const int tensor : k.ready) ready.push_back(model.layers[i].first_parameter + tensor);
      }
    }
  }
};

}  // namespace stepcast::testing
