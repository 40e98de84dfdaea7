#include "sim/advise/unit_bytes.hpp"

#include <doctest/doctest.h>

using namespace stepcast;

namespace {

TrainingStep step_of(const char* model, WrapPolicy wrap) {
  TrainingStep step;
  step.model = load_model(model);
  step.workload.seq_len = 1024;
  step.workload.micro_batch = 4;
  step.strategy.kind = StrategyKind::fsdp2;
  step.strategy.wrap = wrap;
  step.mesh = {1, 8};
  step.precision = precision_recipe("bf16-mixed");
  step.workload.compute_dtype = step.precision.compute;
  return step;
}

}  // namespace

TEST_CASE("Llama-3-70B: the root is the largest unit of the block policy, 10 bytes a parameter") {
  // Embedding and head 2 * 128256 * 8192, final norm 8192. Gathered 2, the next one's output 2,
  // gradients 2, an fp32 reduce input 4.
  const UnitBytes unit = largest_unit(step_of("llama-3-70b", WrapPolicy::block));
  CHECK(unit.unit == "root");
  CHECK(unit.parameters == 2'101'354'496);
  CHECK(unit.states == 21'013'544'960);
  CHECK(unit.activations > 0);
}

TEST_CASE("a unit's activations are those of one sequence, whatever the micro-batch") {
  TrainingStep step = step_of("llama-3-8b", WrapPolicy::block);
  const UnitBytes four = largest_unit(step);
  step.workload.micro_batch = 1;
  CHECK(largest_unit(step).total() == four.total());
}

TEST_CASE("the degree of model parallelism is the first power of two that fits") {
  UnitBytes unit;
  unit.states = 90;
  unit.activations = 8;
  unit.overhead = 2;
  CHECK(model_parallel_degree(unit, 100) == 1);  // 98 in 98
  CHECK(model_parallel_degree(unit, 80) == 2);   // 49 in 78
  CHECK(model_parallel_degree(unit, 50) == 4);   // 49 in 48 no, 25 yes
  CHECK(model_parallel_degree(unit, 2) == 0);    // nothing is left beside the overheads
}
