// The residual MLP as a model: tensors, work and bytes by hand.

#include <doctest/doctest.h>

#include "models/model.hpp"

namespace stepcast {
namespace {

Model tiny() {
  Architecture a;
  a.family = Family::mlp;
  a.hidden = 4;
  a.layers = 2;
  a.ffn_hidden = 6;
  a.vocabulary = 10;
  return build_model("tiny", a);
}

TEST_CASE("an mlp has a table, two projections with biases a block, and a head, no norm") {
  const Model model = tiny();
  // 2 x 10 x 4 tables, a block of 6 x 4 + 6 + 4 x 6 + 4 = 58
  CHECK(model.parameter_elements() == 80 + 2 * 58);
  REQUIRE(model.layers.size() == 4);
  CHECK(model.layers[1].name == Name("layers.0"));
  CHECK(model.parameters[1].name == Name("layers.0.up.weight"));
  CHECK(model.parameters[1].shape == std::vector<std::int64_t>{6, 4});
  CHECK(model.parameters[4].name == Name("layers.0.down.bias"));
  CHECK(model.parameters.back().name == Name("lm_head.weight"));
}

TEST_CASE("an mlp's block keeps tanh's result, or makes it again") {
  const Model model = tiny();
  Workload w;
  w.micro_batch = 3;
  w.seq_len = 5;  // 15 tokens
  w.compute_dtype = Dtype::fp32;
  const LayerWork kept = work_of(model, 1, w);
  CHECK(kept.output == 15 * 4 * 4);
  CHECK(kept.saved_activations == 15 * 4 * 4 + 15 * 6 * 4);  // its input counts as output's size
  CHECK(kept.recompute.empty());
  // Down's bias, then weight, then up's: indices 3, 2, 1, 0.
  std::vector<int> ready;
  for (const BackwardKernel& kernel : kept.backward) {
    ready.insert(ready.end(), kernel.ready.begin(), kernel.ready.end());
  }
  CHECK(ready == std::vector<int>{3, 2, 1, 0});

  w.checkpointing = Checkpointing::full;
  const LayerWork again = work_of(model, 1, w);
  CHECK(again.saved_activations == 15 * 4 * 4);
  CHECK(again.recomputed_activations == 15 * 6 * 4);
  CHECK(again.recompute.size() < again.forward.size());  // stops before the last product
  CHECK(again.recompute.front() == again.forward.front());
}

TEST_CASE("an mlp counts no attention, and heads must not be said") {
  const Model model = tiny();
  // 6 N without the token table: 40 + 116
  CHECK(model_flops_per_token(model, 16) == doctest::Approx(6 * 156));
  Architecture a = model.architecture;
  a.heads = 2;
  CHECK_THROWS_WITH(build_model("bad", a), "bad: heads: 2 is out of range; accepted: 0 to 0");
}

}  // namespace
}  // namespace stepcast
