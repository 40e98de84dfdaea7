// Where the loader's lane waits: worked out by hand, in the schedule's own terms.

#include <doctest/doctest.h>

#include "sim/schedule/problems.hpp"
#include "sim/schedule/text.hpp"
#include "sim/strategies/strategy.hpp"
#include "tests/unit/strategies/four_layers.hpp"

using namespace stepcast;

namespace {

struct Reads {
  std::vector<OpRef> waits;       // of the loader before each read, in order
  std::vector<OpIndex> taken_at;  // the main lane's wait for it
  std::vector<Name> lanes;        // that reads
};

TrainingStep step_with(int workers, int prefetch, int accumulation) {
  TrainingStep step;
  step.model = load_model("gpt2");
  step.workload.seq_len = 128;
  step.mesh = {2, 1};
  step.precision = precision_recipe(default_precision(StrategyKind::ddp));
  step.accumulation = accumulation;
  step.loader = {.modelled = true, .workers = workers, .prefetch = prefetch, .sample_bytes = 1024};
  return step;
}

Reads reads_of(const Schedule& s) {
  Reads result;
  const std::vector<Op>& ops = s.roles[0].steps.back().ops;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (ops[i].kind != OpKind::storage) continue;
    result.lanes.push_back(s.lanes[static_cast<std::size_t>(ops[i].lane)].name);
    if (ops[i].lane == 0) continue;
    result.waits.push_back(s.at_refs(ops[i - 1].waits)[0]);
    result.taken_at.push_back(static_cast<OpIndex>(i) + 1);
  }
  return result;
}

}  // namespace

TEST_CASE("two workers of two are four batches ahead: with one a step, four steps") {
  const Schedule s = build_schedule(step_with(2, 2, 1));
  CHECK(problems(s).empty());
  const Reads reads = reads_of(s);
  REQUIRE(reads.waits.size() == 1);
  CHECK(reads.waits[0].steps_back == 4);
  CHECK(reads.waits[0].op == reads.taken_at[0]);
}

TEST_CASE("with three batches a step and four ahead, reads wait for one and two steps ago") {
  // Batch m waits for batch m - 4: 0 -> 2 two steps ago (0 - 4 + 6), 1 -> 0 and 2 -> 1 one ago.
  const Schedule s = build_schedule(step_with(2, 2, 3));
  CHECK(problems(s).empty());
  const Reads reads = reads_of(s);
  REQUIRE(reads.waits.size() == 3);
  const int back[] = {2, 1, 1};
  const std::size_t of[] = {2, 0, 1};
  for (std::size_t m = 0; m < 3; ++m) {
    CHECK(reads.waits[m].steps_back == back[m]);
    CHECK(reads.waits[m].op == reads.taken_at[of[m]]);
  }
}

TEST_CASE("one worker of one reads a batch when the one before is taken, within the step too") {
  const Reads reads = reads_of(build_schedule(step_with(1, 1, 2)));
  REQUIRE(reads.waits.size() == 2);
  CHECK(reads.waits[0].steps_back == 1);
  CHECK(reads.waits[0].op == reads.taken_at[1]);
  CHECK(reads.waits[1].steps_back == 0);
  CHECK(reads.waits[1].op == reads.taken_at[0]);
}

TEST_CASE("without workers the main lane reads, without loading there is no storage op") {
  const Reads main = reads_of(build_schedule(step_with(0, 2, 2)));
  CHECK(main.lanes == std::vector<Name>{"main", "main"});
  TrainingStep none = step_with(0, 2, 2);
  none.loader = {};
  CHECK(reads_of(build_schedule(none)).lanes.empty());
}

TEST_CASE("every strategy loads its batches the same way and prints and parses back") {
  for (const StrategyKind kind : {StrategyKind::ddp, StrategyKind::zero2, StrategyKind::zero3,
                                  StrategyKind::fsdp1, StrategyKind::fsdp2}) {
    TrainingStep step = step_with(2, 2, 3);
    step.strategy.kind = kind;
    step.precision = precision_recipe(default_precision(kind));
    const bool replicates = kind == StrategyKind::ddp || kind == StrategyKind::zero2;
    step.mesh = replicates ? Mesh{2, 1} : Mesh{1, 2};
    const Schedule s = build_schedule(step);
    CAPTURE(to_string(kind));
    CHECK(problems(s).empty());
    CHECK(reads_of(s).waits.size() == 3);
    CHECK(equal(s, parse_schedule(to_text(s), "again")));
  }
}
