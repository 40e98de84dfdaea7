#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "base/error.hpp"
#include "models/model.hpp"

using namespace stepcast;

TEST_CASE("E-22: Llama-3-8B at 8,192 tokens is 57.914 GFLOP a token, MPT-7B at 2,048 is 43.174") {
  // 6 (8,030,261,248 - 525,336,576) + 12 * 32 * 4096 * 8192
  CHECK(model_flops_per_token(load_model("llama-3-8b"), 8192) ==
        6.0 * 7504924672.0 + 12884901888.0);
  CHECK(std::round(model_flops_per_token(load_model("llama-3-8b"), 8192) / 1e6) == 57914);
  // tied: all parameters, 6 * 6,658,859,008 + 12 * 32 * 4096 * 2048
  CHECK(model_flops_per_token(load_model("mpt-7b", 2048), 2048) == 39953154048.0 + 3221225472.0);
  CHECK(std::round(model_flops_per_token(load_model("mpt-7b"), 2048) / 1e6) == 43174);
}

TEST_CASE(
    "E-22: 5,762 tokens/s of Llama-3-8B are 33.7 % of 989 TFLOP/s, 10,643 of MPT-7B are 459.5") {
  const double llama = 5762 * model_flops_per_token(load_model("llama-3-8b"), 8192);
  CHECK(std::round(llama / 1e11) == 3337);
  CHECK(std::round(1000 * llama / 989e12) == 337);
  const double mpt = 10643 * model_flops_per_token(load_model("mpt-7b"), 2048);
  CHECK(std::round(mpt / 1e11) == 4595);
}

TEST_CASE("full recomputation is 8N + 16Lhs, selective adds the attention core where unfused") {
  const Model model = load_model("llama-3-8b");
  const double n = 7504924672.0;
  const double attention = 32.0 * 4096 * 8192;
  CHECK(hardware_flops_per_token(model, 8192, Checkpointing::none) == 6 * n + 12 * attention);
  CHECK(hardware_flops_per_token(model, 8192, Checkpointing::full) == 8 * n + 16 * attention);
  CHECK(hardware_flops_per_token(model, 8192, Checkpointing::selective) == 6 * n + 12 * attention);
  CHECK(hardware_flops_per_token(model, 8192, Checkpointing::selective, false) ==
        6 * n + 16 * attention);
}

TEST_CASE("selective-op counts k, o and up once more") {
  const Model model = load_model("llama-3-8b");
  const double again = 4096.0 * 1024 + 4096.0 * 4096 + 4096.0 * 14336;
  CHECK(hardware_flops_per_token(model, 8192, Checkpointing::selective_op) ==
        doctest::Approx(model_flops_per_token(model, 8192) + 2 * 32 * again).epsilon(1e-12));
}

TEST_CASE("without a sequence length the model's own is taken") {
  const Model model = load_model("llama-3-8b");
  CHECK(model_flops_per_token(model, 0) == model_flops_per_token(model, 8192));
  CHECK_THROWS_AS(model_flops_per_token(model, -5), InputError);
}

TEST_CASE("the kernels of every decoder add up to the formula less what multiplies nothing") {
  for (const std::string& name : catalog_models()) {
    for (const std::int64_t micro_batch : {1, 3}) {
      CAPTURE(name);
      const Model model = load_model(name, 1024);
      const Family family = model.architecture.family;
      if (takes_images(family) || family == Family::bert) continue;  // encoders_test, resnet_test
      if (family == Family::mlp) continue;  // so small that biases weigh 2 %
      if (name == "gpt-oss-20b") continue;  // windows of 128 tokens; biases of experts in matrices
      Workload workload;
      workload.micro_batch = micro_batch;
      workload.seq_len = 1024;
      workload.autocast_weights = micro_batch == 3;
      workload.fused_elementwise = micro_batch == 3;
      double forward = 0;
      double backward = 0;
      for (std::size_t i = 0; i < model.layers.size(); ++i) {
        const LayerWork work = work_of(model, static_cast<int>(i), workload);
        for (const Kernel& kernel : work.forward) forward += model_flops(kernel);
        for (const BackwardKernel& step : work.backward) backward += model_flops(step.kernel);
      }
      // Norms, biases and learned positions are parameters that no matrix product uses. Positions
      // are in N only where tied (else N leaves out all input tables).
      std::int64_t idle = 0;
      for (const Parameter& parameter : model.parameters) {
        const bool positions = parameter.name.str().find("wpe") != std::string::npos;
        if (parameter.shape.size() == 1 || (positions && model.architecture.tied_embeddings)) {
          idle += parameter.elements();
        }
      }
      const double tokens = 1024.0 * static_cast<double>(micro_batch);
      const double formula = model_flops_per_token(model, 1024) - 6.0 * static_cast<double>(idle);
      CHECK(forward + backward == doctest::Approx(formula * tokens).epsilon(1e-12));
      CHECK(backward == doctest::Approx(2 * forward).epsilon(1e-12));
      CHECK(6.0 * static_cast<double>(idle) < 0.01 * model_flops_per_token(model, 1024));
    }
  }
}
