#pragma once
// ResNet-50's 161 parameter tensors (torchvision), in definition order and in the order in which
// backward makes their gradients ready: modules reversed, weight before bias in convolution and
// batch norm, bias before weight in the linear layer, a block's projection shortcut first (forward
// runs it last).

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/units.hpp"
#include "sim/strategies/ddp/buckets.hpp"

namespace stepcast::testing {

struct ResNet50 {
  std::vector<ddp::Tensor> tensors;
  std::vector<int> ready;

  ResNet50() {
    std::vector<std::vector<int>> modules;  // in forward order of execution
    const auto add = [&](std::int64_t elements) {
      tensors.push_back({4 * elements, Dtype::fp32, false});
      return static_cast<int>(tensors.size()) - 1;
    };
    const auto conv = [&](int in, int out, int kernel) {
      return std::vector<int>{add(std::int64_t{in} * out * kernel * kernel)};
    };
    const auto norm = [&](int channels) {
      const int weight = add(channels);
      const int bias = add(channels);
      return std::vector<int>{weight, bias};
    };
    modules.push_back(conv(3, 64, 7));
    modules.push_back(norm(64));
    int channels = 64;
    const int blocks[] = {3, 4, 6, 3};
    for (int stage = 0; stage < 4; ++stage) {
      const int width = 64 << stage;
      for (int block = 0; block < blocks[stage]; ++block) {
        modules.push_back(conv(channels, width, 1));
        modules.push_back(norm(width));
        modules.push_back(conv(width, width, 3));
        modules.push_back(norm(width));
        modules.push_back(conv(width, 4 * width, 1));
        modules.push_back(norm(4 * width));
        if (block == 0) {
          modules.push_back(conv(channels, 4 * width, 1));
          modules.push_back(norm(4 * width));
        }
        channels = 4 * width;
      }
    }
    const int weight = add(1000 * 2048);
    const int bias = add(1000);
    modules.push_back({bias, weight});
    for (std::size_t m = modules.size(); m-- > 0;) {
      ready.insert(ready.end(), modules[m].begin(), modules[m].end());
    }
  }
};

}  // namespace stepcast::testing
