// Mixtral's experts: counts, grouped products, what is kept.
#include "models/experts.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "models/model.hpp"

using namespace stepcast;

TEST_CASE("Mixtral-8x7B has 46,702,792,704 parameters, of which a token meets 12,879,925,248") {
  const Model model = load_model("mixtral-8x7b");
  CHECK(model.parameter_elements() == 46'702'792'704);
  // Six of eight experts of 3 x 4,096 x 14,336 in 32 layers do not run.
  CHECK(model.active_parameter_elements() == 46'702'792'704 - 32ll * 6 * 3 * 4096 * 14336);
  CHECK(model.active_parameter_elements() == 12'879'925'248);
  CHECK(load_model("mixtral-8x22b").parameter_elements() == 140'620'634'112);
  // 6 (active - token table) + 12 L h s
  CHECK(model_flops_per_token(model, 4096) ==
        6.0 * (12'879'925'248.0 - 32000.0 * 4096) + 12.0 * 32 * 4096 * 4096);
}

TEST_CASE("experts stand between attention and norms, w1 w2 w3 each") {
  const Model model = load_model("mixtral-8x7b");
  const Layer& block = model.layers[1];
  REQUIRE(block.parameter_count == 4 + 1 + 8 * 3 + 2);
  const auto name = [&](int i) {
    return model.parameters[static_cast<std::size_t>(block.first_parameter + i)].name.str();
  };
  CHECK(name(4) == "model.layers.0.block_sparse_moe.gate.weight");
  CHECK(name(5) == "model.layers.0.block_sparse_moe.experts.0.w1.weight");
  CHECK(name(6) == "model.layers.0.block_sparse_moe.experts.0.w2.weight");
  CHECK(name(28) == "model.layers.0.block_sparse_moe.experts.7.w3.weight");
  CHECK(name(29) == "model.layers.0.input_layernorm.weight");
}

TEST_CASE("each projection of the experts is one grouped product of tokens k / E rows") {
  const Model model = load_model("mixtral-8x7b");
  Workload workload;
  workload.seq_len = 8192;
  int grouped = 0;
  double flops = 0;
  const LayerWork work = work_of(model, 1, workload);
  for (const Kernel& k : work.forward) {
    flops += model_flops(k);
    if (k.kind != KernelKind::gemm || k.batch == 1) continue;
    ++grouped;
    CHECK(k.batch == 8);
    CHECK(k.m == 2048);
    CHECK(k.n * k.k == 4096ll * 14336);
  }
  CHECK(grouped == 3);
  // Projections of attention, router, two experts' three matrices; both products of attention.
  const double weights = 2 * 4096.0 * 4096 + 2 * 4096.0 * 1024 + 8 * 4096.0 + 6 * 4096.0 * 14336;
  CHECK(flops == 2 * 8192 * weights + 4.0 * 8192 * 8192 * 4096);
  double backward = 0;
  for (const BackwardKernel& k : work.backward) backward += model_flops(k.kernel);
  CHECK(backward == 2 * flops);
}

TEST_CASE("all down weights are ready together, the last expert's first, the router after them") {
  const Model model = load_model("mixtral-8x7b");
  Workload workload;
  workload.seq_len = 1024;
  std::vector<int> ready;
  for (const BackwardKernel& k : work_of(model, 1, workload).backward) {
    ready.insert(ready.end(), k.ready.begin(), k.ready.end());
  }
  REQUIRE(ready.size() == 31);
  std::vector<int> expected;
  for (const int first : {6, 7, 5}) {  // w2, w3, w1
    for (int e = 7; e >= 0; --e) expected.push_back(first + 3 * e);
  }
  for (const int rest : {4, 30, 3, 2, 1, 0, 29}) expected.push_back(rest);
  CHECK(ready == expected);
}

TEST_CASE("a block keeps two experts' activations a token and the rows they came from") {
  const Model model = load_model("mixtral-8x7b");
  Workload workload;
  workload.seq_len = 1024;
  const std::int64_t t = 1024, h = 4096, f = 14336;
  // Both norms' inputs and results, q and attention's result, k and v; log-sum-exp of 32 heads;
  // gate, up, silu and product of two experts; rows in and out of them; the router's figures.
  const Bytes attention = 2 * t * (4 * h + 2 * h + 2 * 1024) + 4 * t * 32;
  const Bytes experts = 2 * 4 * 2 * t * f + 2 * 2 * 2 * t * h + 4 * t * 8 + 10 * 2 * t;
  CHECK(work_of(model, 1, workload).saved_activations == attention + experts);
}
