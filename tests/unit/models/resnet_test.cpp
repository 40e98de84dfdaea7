// ResNets against torchvision's own figures and hand counts.
#include "models/resnet.hpp"

#include <doctest/doctest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"

using namespace stepcast;

namespace {

double forward_macs(const Model& model, std::int64_t image_size = 0) {
  Workload one;
  one.image_size = image_size;
  return model_flops_per_sample(model, one) / 6.0;
}

std::vector<std::string> ready_names(const Model& model, int layer, const Workload& workload) {
  const Layer& l = model.layers[static_cast<std::size_t>(layer)];
  std::vector<std::string> names;
  for (const BackwardKernel& k : work_of(model, layer, workload).backward) {
    for (const int i : k.ready) {
      names.push_back(model.parameters[static_cast<std::size_t>(l.first_parameter + i)].name.str());
    }
  }
  return names;
}

}  // namespace

TEST_CASE("torchvision's counts are met to the last parameter") {
  const Model fifty = load_model("resnet-50");
  CHECK(fifty.parameter_elements() == 25'557'032);
  CHECK(fifty.parameters.size() == 161);
  CHECK(fifty.layers.size() == 18);  // stem, 16 blocks, head
  const Model eighteen = load_model("resnet-18");
  CHECK(eighteen.parameter_elements() == 11'689'512);
  CHECK(eighteen.parameters.size() == 62);
  CHECK(eighteen.layers.size() == 10);
}

TEST_CASE("E-29: 53 batch norms of 26,560 channels hold 212,480 bytes and 53 counts") {
  const Model model = load_model("resnet-50");
  REQUIRE(model.buffers.size() == 3 * 53);
  Bytes fp32 = 0, int64 = 0;
  for (const ModuleBuffer& buffer : model.buffers) {
    (buffer.dtype == Dtype::fp32 ? fp32 : int64) +=
        buffer.elements() * bytes_per_element(buffer.dtype);
  }
  CHECK(fp32 == 2 * 26'560 * 4);
  CHECK(int64 == 424);
  CHECK(model.buffers[0].name.str() == "bn1.running_mean");
  CHECK(model.buffers[2].name.str() == "bn1.num_batches_tracked");
}

TEST_CASE("parameters stand in torchvision's order, the shortcut's after the path's") {
  const Model model = load_model("resnet-50");
  const Layer& first = model.layers[1];
  CHECK(first.name.str() == "layer1.0");
  std::vector<std::string> names;
  for (int i = 0; i < first.parameter_count; ++i) {
    names.push_back(
        model.parameters[static_cast<std::size_t>(first.first_parameter + i)].name.str());
  }
  CHECK(names == std::vector<std::string>{
                     "layer1.0.conv1.weight", "layer1.0.bn1.weight", "layer1.0.bn1.bias",
                     "layer1.0.conv2.weight", "layer1.0.bn2.weight", "layer1.0.bn2.bias",
                     "layer1.0.conv3.weight", "layer1.0.bn3.weight", "layer1.0.bn3.bias",
                     "layer1.0.downsample.0.weight", "layer1.0.downsample.1.weight",
                     "layer1.0.downsample.1.bias"});
}

TEST_CASE("gradients become ready shortcut first, norm before convolution, weight before bias") {
  const Model model = load_model("resnet-18");
  for (const bool fused : {false, true}) {
    Workload workload;
    workload.fused_elementwise = fused;
    workload.autocast_weights = fused;
    CHECK(ready_names(model, 3, workload) ==  // layer2.0
          std::vector<std::string>{"layer2.0.downsample.1.weight", "layer2.0.downsample.1.bias",
                                   "layer2.0.downsample.0.weight", "layer2.0.bn2.weight",
                                   "layer2.0.bn2.bias", "layer2.0.conv2.weight",
                                   "layer2.0.bn1.weight", "layer2.0.bn1.bias",
                                   "layer2.0.conv1.weight"});
  }
  CHECK(ready_names(model, 9, {}) == std::vector<std::string>{"fc.bias", "fc.weight"});
}

TEST_CASE("a forward is 4.089 G multiply-adds for ResNet-50, 1.814 for ResNet-18") {
  // ResNet-50's first stage: the stem 112^2 64 147; 56^2 (64 64 + 9 64 64 + 64 256 + 64 256), then
  // twice 56^2 (256 64 + 9 64 64 + 64 256).
  const Model fifty = load_model("resnet-50");
  const auto layer = [&](int i) {
    double flops = 0;
    for (const Kernel& k : work_of(fifty, i, {}).forward) flops += model_flops(k);
    return flops / 2;
  };
  CHECK(layer(0) == 112.0 * 112 * 64 * 147);
  CHECK(layer(1) == 3136.0 * 73728);
  CHECK(layer(2) == 3136.0 * 69632);
  CHECK(forward_macs(fifty) == 4'089'184'256.0);
  CHECK(forward_macs(load_model("resnet-18")) == 1'814'073'344.0);
  // Four times the pixels, but for the classifier.
  CHECK(forward_macs(fifty, 448) - 2'048'000 == 4 * (forward_macs(fifty) - 2'048'000));
}

TEST_CASE("backward multiplies twice what forward does, but for the images' gradient") {
  for (const char* name : {"resnet-50", "resnet-18"}) {
    const Model model = load_model(name);
    for (std::size_t i = 0; i < model.layers.size(); ++i) {
      const LayerWork work = work_of(model, static_cast<int>(i), {});
      double forward = 0, backward = 0;
      for (const Kernel& k : work.forward) forward += model_flops(k);
      for (const BackwardKernel& k : work.backward) backward += model_flops(k.kernel);
      CHECK(backward == (i == 0 ? 1 : 2) * forward);
    }
  }
}

TEST_CASE("every tensor becomes ready once, in layers of one class alike") {
  for (const char* name : {"resnet-50", "resnet-18"}) {
    const Model model = load_model(name);
    std::vector<const Layer*> of_class(static_cast<std::size_t>(model.shape_classes), nullptr);
    for (std::size_t i = 0; i < model.layers.size(); ++i) {
      const Layer& layer = model.layers[i];
      const LayerWork work = work_of(model, static_cast<int>(i), {});
      std::multiset<int> ready;
      for (const BackwardKernel& k : work.backward) ready.insert(k.ready.begin(), k.ready.end());
      CHECK(ready.size() == static_cast<std::size_t>(layer.parameter_count));
      CHECK(std::set<int>(ready.begin(), ready.end()).size() == ready.size());
      const Layer*& other = of_class.at(static_cast<std::size_t>(layer.shape_class));
      if (!other) other = &layer;
      REQUIRE(other->parameter_count == layer.parameter_count);
      for (int p = 0; p < layer.parameter_count; ++p) {
        CHECK(model.parameters[static_cast<std::size_t>(layer.first_parameter + p)].shape ==
              model.parameters[static_cast<std::size_t>(other->first_parameter + p)].shape);
      }
      CHECK(work.forward ==
            work_of(model, static_cast<int>(other - model.layers.data()), {}).forward);
    }
    for (const Layer* layer : of_class) CHECK(layer != nullptr);
  }
}

TEST_CASE(
    "layer1.1 keeps 768 x 3,136 numbers an image: inputs, results of convolutions and norms") {
  const Model model = load_model("resnet-50");
  Workload workload;
  workload.micro_batch = 2;
  CHECK(work_of(model, 2, workload).saved_activations == 2 * 768 * 3136 * 2);
  // layer2.0: 256 in at 56^2, conv1 and norm 128 + 128 at 56^2; at 28^2 conv2 and norm 128 + 128,
  // conv3 512, shortcut 512.
  CHECK(work_of(model, 4, workload).saved_activations ==
        2 * 2 * (512 * 3136 + (2 * 128 + 512 + 512) * 784));
  workload.checkpointing = Checkpointing::full;
  const LayerWork full = work_of(model, 2, workload);
  CHECK(full.saved_activations == 2 * 2 * 256 * 3136);
  CHECK(full.saved_activations + full.recomputed_activations == 2 * 768 * 3136 * 2);
  CHECK(full.recompute == full.forward);
}

TEST_CASE("PyTorch's own order of dimensions is turned around each convolution of tensor cores") {
  const Model model = load_model("resnet-50");
  const auto moved = [&](const Workload& workload) {
    const LayerWork work = work_of(model, 2, workload);  // layer1.1
    Bytes forward = 0, backward = 0;
    for (const Kernel& k : work.forward) forward += k.bytes_read + k.bytes_written;
    for (const BackwardKernel& k : work.backward) {
      backward += k.kernel.bytes_read + k.kernel.bytes_written;
    }
    return std::pair(forward, backward);
  };
  Workload workload;
  workload.micro_batch = 2;
  const auto [forward, backward] = moved(workload);
  workload.channels_last = true;
  const auto [least_forward, least_backward] = moved(workload);
  // Three convolutions, of 256 to 64, 64 to 64 and 64 to 256 channels at 56 x 56: images in and
  // results out are 768 x 3,136 numbers, read and written, 2 bytes each. Backward turns them for
  // the gradient of the images and once more for that of the weights.
  CHECK(forward - least_forward == 2 * 768 * 3136 * 2 * 2);
  CHECK(backward - least_backward == 2 * 2 * 768 * 3136 * 2 * 2);

  // fp32 has kernels for it, and torch.compile turns nothing in between.
  for (const bool compiled : {false, true}) {
    Workload other;
    other.compute_dtype = compiled ? Dtype::bf16 : Dtype::fp32;
    other.fused_elementwise = compiled;
    const auto as_it_comes = moved(other);
    other.channels_last = true;
    CHECK(moved(other) == as_it_comes);
  }
}

TEST_CASE("what does not fit a ResNet is refused") {
  const Model model = load_model("resnet-50");
  const auto error_of = [&](const Workload& workload) {
    try {
      work_of(model, 1, workload);
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  Workload workload;
  workload.seq_len = 128;
  CHECK(error_of(workload) ==
        "seq_len: 128 says nothing to resnet-50, which reads images; accepted: image_size");
  workload = {};
  workload.image_size = 16;
  CHECK(error_of(workload) == "image_size: 16 is out of range; accepted: 32 to 16384 pixels");
  workload = {};
  workload.checkpointing = Checkpointing::selective;
  CHECK(error_of(workload) == "checkpointing: 'selective' is not accepted; accepted: none, full");
  workload = {};
  workload.image_size = 224;
  CHECK_THROWS_AS(work_of(load_model("gpt2"), 1, workload), InputError);
}
