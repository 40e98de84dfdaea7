#pragma once
// The convolutions of a ResNet, in the order in which torchvision registers and runs them:
//
//   stem       conv1 7x7 stride 2, bn1, ReLU, max pool 3x3 stride 2
//   layer1..4  residual blocks; the first of layer2, 3 and 4 halves the image
//     basic        conv1 3x3 (stride), bn1, conv2 3x3, bn2                    (ResNet-18, 34)
//     bottleneck   conv1 1x1, bn1, conv2 3x3 (stride), bn2, conv3 1x1, bn3    (ResNet-50 and up)
//     shortcut     downsample.0 1x1 (stride), downsample.1: where the shape changes; runs last
//   head       average pool, fc, loss
//
// The stride stands in the 3x3 (torchvision, "v1.5"). Each convolution is followed by a BatchNorm;
// so the tensors of convolution i of a layer are 3i (weight), 3i + 1 and 3i + 2 (norm's weight and
// bias). Internal to models/. Tested by tests/unit/models/resnet_test.cpp.

#include <cstdint>
#include <string>
#include <vector>

#include "models/model.hpp"
#include "models/work_parts.hpp"

namespace stepcast {

struct ConvNorm {
  std::string convolution;  // "conv1", "downsample.0"
  std::string norm;         // "bn1", "downsample.1"
  std::int64_t in = 0;      // channels
  std::int64_t out = 0;     // channels
  std::int64_t kernel = 1;  // pixels a side
  std::int64_t stride = 1;
  std::int64_t in_side = 0;  // pixels; 0 where only the tensors are asked for
  std::int64_t out_side = 0;
};

struct ResidualBlock {
  std::vector<ConvNorm> path;      // the two or three of the residual path
  std::vector<ConvNorm> shortcut;  // one or none
  std::int64_t in_side = 0, out_side = 0;
};

inline constexpr std::int64_t stem_channels = 64;

// Sides of the images after a convolution or pool of odd kernel, padded by half of it.
constexpr std::int64_t side_after(std::int64_t side, std::int64_t stride) {
  return side == 0 ? 0 : (side - 1) / stride + 1;
}

ConvNorm stem_of(std::int64_t image_size);
// Block `number` of all stages, 0-based, for images of `image_size` (0: tensors only).
ResidualBlock residual_block(const Architecture& architecture, std::int64_t number,
                             std::int64_t image_size);

Model build_resnet(const std::string& name, const Architecture& architecture);

void stem_work(const Sizes& sizes, LayerWork& work);
void residual_work(const Sizes& sizes, std::int64_t number, LayerWork& work);
void image_head_work(const Sizes& sizes, LayerWork& work);

}  // namespace stepcast
