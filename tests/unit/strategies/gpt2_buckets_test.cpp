// E-7: GPT-2 small in fp32, as the schedule itself launches it.

#include <doctest/doctest.h>

#include "sim/strategies/strategy.hpp"
#include "tests/unit/strategies/worked.hpp"

namespace stepcast {
namespace {

TrainingStep gpt2(bool tied) {
  TrainingStep step;
  step.model = load_model("gpt2");
  if (!tied) {
    Architecture untied = step.model.architecture;
    untied.tied_embeddings = false;
    step.model = build_model("gpt2-untied", untied);
  }
  step.workload.seq_len = 1024;
  step.workload.compute_dtype = Dtype::fp32;
  step.strategy.kind = StrategyKind::ddp;
  step.precision = precision_recipe("fp32");
  step.mesh = {8, 1};
  step.first_step = true;
  return step;
}

std::vector<Bytes> reduced(const Schedule& schedule, const char* program) {
  std::vector<Bytes> bytes;
  for (const Op& op : testing::ops_of(schedule, program)) {
    if (op.kind == OpKind::collective && op.collective == CollectiveKind::all_reduce) {
      bytes.push_back(bytes_of(op));
    }
  }
  return bytes;
}

TEST_CASE("E-7: GPT-2 reduces one bucket first, then 13 with the tied embedding in the last") {
  const TrainingStep step = gpt2(true);
  CHECK(step.model.parameters.size() == 148);
  const Schedule schedule = build_schedule(step);
  CHECK(reduced(schedule, "first") == std::vector<Bytes>{497'759'232});
  std::vector<Bytes> steady{9'446'400};
  steady.insert(steady.end(), 11, 28'351'488);
  steady.push_back(176'446'464);
  CHECK(reduced(schedule, "second") == steady);
  CHECK(reduced(schedule, "steady") == steady);
}

TEST_CASE("E-7: untied, the head's 154 MB are the first of 14 buckets") {
  const TrainingStep step = gpt2(false);
  CHECK(step.model.parameters.size() == 149);
  const Schedule schedule = build_schedule(step);
  CHECK(reduced(schedule, "first") == std::vector<Bytes>{652'148'736});
  std::vector<Bytes> steady{154'389'504};
  steady.insert(steady.end(), 12, 28'351'488);
  steady.push_back(157'541'376);
  CHECK(reduced(schedule, "steady") == steady);
}

TEST_CASE("E-28: GPT-2's rebuild broadcasts 149 and then 13 int32") {
  const Schedule schedule = build_schedule(gpt2(true));
  std::vector<std::int64_t> broadcasts;
  for (const Op& op : testing::ops_of(schedule, "second")) {
    if (op.kind == OpKind::collective && op.collective == CollectiveKind::broadcast) {
      broadcasts.push_back(op.elements);
    }
  }
  CHECK(broadcasts == std::vector<std::int64_t>{149, 13});
}

}  // namespace
}  // namespace stepcast
