#pragma once
// ResNet-18's 62 parameter tensors (torchvision), in definition order and in the order in which
// backward makes their gradients ready: as resnet50_tensors.hpp, with basic blocks of two 3x3
// convolutions; stages 2 to 4 begin with a projection shortcut.

#include <cstdint>
#include <vector>

#include "base/units.hpp"
#include "sim/strategies/ddp/buckets.hpp"

namespace stepcast::testing {

struct ResNet18 {
  std::vector<ddp::Tensor> tensors;
  std::vector<int> ready;

  ResNet18() {
    std::vector<std::vector<int>> modules;  // in forward order of execution
    const auto add = [&](std::int64_t elements) {
      tensors.push_back({4 * elements, Dtype::fp32, false});
      return static_cast<int>(tensors.size()) - 1;
    };
    const auto conv_and_norm = [&](int in, int out, int kernel) {
      modules.push_back({add(std::int64_t{in} * out * kernel * kernel)});
      const int weight = add(out);
      const int bias = add(out);
      modules.push_back({weight, bias});
    };
    conv_and_norm(3, 64, 7);
    int channels = 64;
    for (int stage = 0; stage < 4; ++stage) {
      const int width = 64 << stage;
      for (int block = 0; block < 2; ++block) {
        conv_and_norm(channels, width, 3);
        conv_and_norm(width, width, 3);
        if (channels != width) conv_and_norm(channels, width, 1);
        channels = width;
      }
    }
    const int weight = add(1000 * 512);
    const int bias = add(1000);
    modules.push_back({bias, weight});
    for (std::size_t m = modules.size(); m-- > 0;) {
      ready.insert(ready.end(), modules[m].begin(), modules[m].end());
    }
  }
};

}  // namespace stepcast::testing
