// fp8 across ranks: what is gathered in 8 bits, and which scales are exchanged when.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "sim/schedule/problems.hpp"
#include "sim/strategies/common/fp8_scales.hpp"
#include "sim/strategies/strategy.hpp"

using namespace stepcast;

namespace {

// Two llama blocks, h 64, f 128: 7 weights each in fp8.
TrainingStep step_of(StrategyKind kind, Fp8Recipe recipe) {
  Architecture a;
  a.family = Family::llama;
  a.hidden = 64;
  a.layers = 2;
  a.heads = 4;
  a.kv_heads = 2;
  a.head_size = 16;
  a.ffn_hidden = 128;
  a.vocabulary = 32;
  a.max_positions = 16;
  TrainingStep step;
  step.model = build_model("small", a);
  step.workload.seq_len = 16;
  step.workload.fp8 = recipe;
  step.strategy.kind = kind;
  step.precision = precision_recipe(default_precision(kind));
  step.workload.compute_dtype = step.precision.compute;
  step.workload.autocast_weights = step.precision.autocast;
  const bool replicated = kind == StrategyKind::ddp || kind == StrategyKind::zero1 ||
                          kind == StrategyKind::zero2 || kind == StrategyKind::dp;
  step.mesh = replicated ? Mesh{.replicate = 4, .shard = 1} : Mesh{.replicate = 1, .shard = 4};
  if (kind == StrategyKind::hsdp) step.mesh = {.replicate = 2, .shard = 2};
  return step;
}

std::vector<Op> collectives(const Schedule& schedule, const std::string& verb) {
  std::vector<Op> found;
  for (const Op& op : schedule.roles[0].steps.back().ops) {
    if (op.kind == OpKind::collective && op.verb == Name(verb)) found.push_back(op);
  }
  return found;
}

}  // namespace

TEST_CASE("seven weights a block multiply in fp8") {
  CHECK(fp8_weights(step_of(StrategyKind::ddp, Fp8Recipe::none).model) == 14);
  CHECK(fp8_weights(load_model("llama-3-8b")) == 7 * 32);
}

TEST_CASE("delayed scaling exchanges largest values twice a micro-batch under every strategy") {
  for (const StrategyKind kind :
       {StrategyKind::dp, StrategyKind::ddp, StrategyKind::zero1, StrategyKind::zero2,
        StrategyKind::zero3, StrategyKind::fsdp1, StrategyKind::fsdp2, StrategyKind::hsdp}) {
    CAPTURE(std::string(to_string(kind)));
    TrainingStep step = step_of(kind, Fp8Recipe::te_delayed);
    step.accumulation = 3;
    const Schedule schedule = build_schedule(step);
    for (const std::string& problem : problems(schedule)) FAIL_CHECK(problem);
    // nn.DataParallel is one process: nobody to exchange with.
    const std::size_t times = kind == StrategyKind::dp ? 0 : 3;
    const std::vector<Op> forward = collectives(schedule, "fp8_amax_forward");
    REQUIRE(forward.size() == times);
    CHECK(collectives(schedule, "fp8_amax_backward").size() == times);
    for (const Op& op : forward) {
      CHECK(op.elements == 2 * 14);  // inputs and weights
      CHECK(op.reduction == Reduction::max);
    }
  }
}

TEST_CASE("torchao exchanges nothing where weights are gathered in 16 bit") {
  const Schedule schedule =
      build_schedule(step_of(StrategyKind::fsdp2, Fp8Recipe::torchao_tensorwise));
  CHECK(problems(schedule).empty());
  CHECK(collectives(schedule, "fp8_scales").empty());
  for (const Op& op : collectives(schedule, "all_gather")) CHECK(op.dtype == Dtype::bf16);
}

TEST_CASE("under fp8 all-gather blocks travel as bytes, and every weight's scale before them") {
  for (const StrategyKind kind : {StrategyKind::fsdp2, StrategyKind::hsdp}) {
    TrainingStep step = step_of(kind, Fp8Recipe::torchao_tensorwise);
    step.strategy.fp8_all_gather = true;
    step.workload.fp8_gathered = true;
    const Schedule schedule = build_schedule(step);
    for (const std::string& problem : problems(schedule)) FAIL_CHECK(problem);
    const std::vector<Op> gathers = collectives(schedule, "all_gather");
    // Two blocks forward and backward in bytes, the root (embedding, norm, head) in bf16.
    const auto bytes = [](const Op& op) { return op.dtype == Dtype::int8; };
    CHECK(std::count_if(gathers.begin(), gathers.end(), bytes) == 4);
    CHECK(gathers.size() == 5);
    CHECK(collectives(schedule, "fp8_scales").size() == 4 * 7);

    step.strategy.fp8_precompute_scale = true;
    const Schedule at_once = build_schedule(step);
    for (const std::string& problem : problems(at_once)) FAIL_CHECK(problem);
    const std::vector<Op> scales = collectives(at_once, "fp8_scales");
    REQUIRE(scales.size() == 1);
    CHECK(scales[0].elements == 14);
    CHECK(scales[0].phase == Phase::optimizer);
  }
}
