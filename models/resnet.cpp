#include "models/resnet.hpp"

#include <fmt/format.h>

#include "base/error.hpp"

namespace stepcast {
namespace {

struct Place {
  std::int64_t stage = 0;   // 0 to 3
  std::int64_t number = 0;  // of the block in its stage
};

Place place_of(const Architecture& a, std::int64_t block) {
  Place place;
  place.number = block;
  for (const std::int64_t blocks : a.stages) {
    if (place.number < blocks) return place;
    place.number -= blocks;
    ++place.stage;
  }
  STEPCAST_ASSERT(false, "a block of the model");
}

class Builder {
 public:
  Builder(const std::string& name, const Architecture& architecture) {
    model_.name = name;
    model_.architecture = architecture;
  }

  Model take() && {
    const Architecture& a = model_.architecture;
    open("stem", LayerKind::stem, true);
    add("", stem_of(0));
    close();
    for (std::int64_t i = 0; i < a.layers; ++i) {
      const Place place = place_of(a, i);
      const std::string name = fmt::format("layer{}.{}", place.stage + 1, place.number);
      // The first block of a stage differs from the others, which are equal. Where it has no
      // shortcut (ResNet-18's layer1) it is like them.
      const ResidualBlock block = residual_block(a, i, 0);
      open(name, LayerKind::block, place.number < 2 && (i == 0 || !equal_to_last(block)));
      for (const ConvNorm& part : block.path) add(name + ".", part);
      for (const ConvNorm& part : block.shortcut) add(name + ".", part);
      close();
      last_ = block;
    }
    open("head", LayerKind::head, true);
    parameter("fc.weight", {a.classes, a.hidden});
    parameter("fc.bias", {a.classes});
    close();
    return std::move(model_);
  }

 private:
  bool equal_to_last(const ResidualBlock& block) const {
    return block.shortcut.empty() && last_.shortcut.empty() &&
           block.path.front().in == last_.path.front().in;
  }

  void open(const std::string& name, LayerKind kind, bool new_class) {
    Layer& layer = model_.layers.emplace_back();
    layer.name = name;
    layer.kind = kind;
    layer.first_parameter = static_cast<int>(model_.parameters.size());
    if (new_class) ++model_.shape_classes;
    layer.shape_class = model_.shape_classes - 1;
  }

  void close() {
    Layer& layer = model_.layers.back();
    layer.parameter_count = static_cast<int>(model_.parameters.size()) - layer.first_parameter;
  }

  void parameter(const std::string& name, std::vector<std::int64_t> shape) {
    model_.parameters.push_back({Name(name), std::move(shape)});
  }

  void add(const std::string& prefix, const ConvNorm& part) {
    parameter(prefix + part.convolution + ".weight", {part.out, part.in, part.kernel, part.kernel});
    const std::string norm = prefix + part.norm;
    parameter(norm + ".weight", {part.out});
    parameter(norm + ".bias", {part.out});
    model_.buffers.push_back({Name(norm + ".running_mean"), {part.out}, Dtype::fp32});
    model_.buffers.push_back({Name(norm + ".running_var"), {part.out}, Dtype::fp32});
    model_.buffers.push_back({Name(norm + ".num_batches_tracked"), {}, Dtype::int64});
  }

  Model model_;
  ResidualBlock last_;
};

}  // namespace

ConvNorm stem_of(std::int64_t image_size) {
  return {"conv1", "bn1", 3, stem_channels, 7, 2, image_size, side_after(image_size, 2)};
}

ResidualBlock residual_block(const Architecture& a, std::int64_t number, std::int64_t image_size) {
  const Place place = place_of(a, number);
  const std::int64_t width = stem_channels << place.stage;
  const std::int64_t out = a.bottleneck ? 4 * width : width;
  const bool first = place.number == 0;
  const std::int64_t in = !first ? out : place.stage == 0 ? stem_channels : out / 2;
  const std::int64_t stride = first && place.stage > 0 ? 2 : 1;

  // After the stem's two halvings; each later stage halves once more.
  std::int64_t side = side_after(side_after(image_size, 2), 2);
  for (std::int64_t s = 1; s < place.stage; ++s) side = side_after(side, 2);
  if (!first && place.stage > 0) side = side_after(side, 2);
  const std::int64_t small = side_after(side, stride);

  ResidualBlock block;
  block.in_side = side;
  block.out_side = small;
  if (a.bottleneck) {
    block.path = {{"conv1", "bn1", in, width, 1, 1, side, side},
                  {"conv2", "bn2", width, width, 3, stride, side, small},
                  {"conv3", "bn3", width, out, 1, 1, small, small}};
  } else {
    block.path = {{"conv1", "bn1", in, width, 3, stride, side, small},
                  {"conv2", "bn2", width, width, 3, 1, small, small}};
  }
  if (in != out) {
    block.shortcut = {{"downsample.0", "downsample.1", in, out, 1, stride, side, small}};
  }
  return block;
}

Model build_resnet(const std::string& name, const Architecture& architecture) {
  return Builder(name, architecture).take();
}

}  // namespace stepcast
