#include "sim/strategies/fsdp1/size_policy.hpp"

#include <doctest/doctest.h>

#include "base/error.hpp"
#include "tests/unit/strategies/worked.hpp"

namespace stepcast {
namespace {

using fsdp1::wrap_by_size;
using fsdp1::wrapped_by_size;

// Llama-2-7B: embedding and head 32,000 x 4,096 = 131,072,000 each; a block's attention
// 4 x 4,096^2 = 67,108,864, its MLP 3 x 4,096 x 11,008 = 135,266,304, with two norms 202,383,360.
TEST_CASE("the size policy at 1e8 wraps Llama-2-7B's MLPs and one unit around all attention") {
  const Model model = load_model("llama-2-7b");
  const auto wrapped = wrapped_by_size(model, 100'000'000);
  // The embedding, 32 MLPs, then the model around them, and the head.
  REQUIRE(wrapped.size() == 1 + 32 + 1 + 1);
  CHECK(wrapped[0].name == "model.embed_tokens");
  CHECK(wrapped[1].name == "model.layers.0.mlp");
  CHECK(wrapped[32].name == "model.layers.31.mlp");
  CHECK(wrapped[33].name == "model");
  CHECK(wrapped[33].parameters.size() == 32 * 6 + 1);  // q k v o, two norms; the final norm
  CHECK(wrapped[34].name == "lm_head");
  CHECK_THROWS_WITH_AS(wrap_by_size(model, 100'000'000),
                       "wrap_min_params: 100000000 makes a unit of model.layers.0.mlp (135266304 "
                       "parameters), which is no whole layer; accepted: a size at which units are "
                       "layers, or wrap block",
                       InputError);
}

TEST_CASE("at 1.5e8 its blocks are the units, and the schedule is that of wrapping by block") {
  TrainingStep step;
  step.model = load_model("llama-2-7b");
  step.workload.seq_len = 4096;
  step.strategy.kind = StrategyKind::fsdp1;
  step.precision = precision_recipe("bf16-mixed");
  step.mesh = {1, 8};
  const Schedule by_block = build_schedule(step);
  step.strategy.wrap_min_params = 150'000'000;
  CHECK(equal(build_schedule(step), by_block));
}

TEST_CASE("a size above the model leaves one unit, the root, gathered once") {
  TrainingStep step;
  step.model = load_model("gpt2");
  step.workload.seq_len = 1024;
  step.strategy.kind = StrategyKind::fsdp1;
  step.precision = precision_recipe("bf16-mixed");
  step.mesh = {1, 8};
  step.strategy.wrap_min_params = 1'000'000'000;
  const Schedule schedule = build_schedule(step);
  CHECK(testing::faults(schedule) == "");
  int collectives = 0;
  for (const Op& op : schedule.roles[0].steps.back().ops) {
    collectives += op.kind == OpKind::collective;
  }
  CHECK(collectives == 2);  // one all-gather, one reduce-scatter
}

}  // namespace
}  // namespace stepcast
