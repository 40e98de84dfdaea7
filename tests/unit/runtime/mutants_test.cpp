// At least 95 % of the mistakes in a schedule are noticed, over every strategy (mutants.hpp): all
// mutants of the plain schedules, a fixed sample of those with options. mutants_table_test.cpp runs
// all of all, with more swaps, and prints the table of docs/runtime.md.

#include "tests/unit/runtime/mutants.hpp"

namespace stepcast {
namespace {

using testing::MutantCount;
using testing::MutantSample;
using testing::Subject;

MutantCount expect_caught(const Subject& subject, const MutantSample& sample, double bar = 0.05) {
  const MutantCount count = testing::count_mutants(subject.c, sample);
  std::string text;
  for (const auto& [how, number] : count.caught) text += " " + how + " " + std::to_string(number);
  MESSAGE(subject.name << ": " << count.all << " mutants, " << count.equivalent << " equivalent, "
                       << count.missed.size() << " missed;" << text);
  for (const std::string& what : count.missed) MESSAGE("missed: " << what);
  CHECK(count.mistakes() > 50);
  CHECK(count.missed_share() <= bar);
  return count;
}

TEST_CASE("mutants of every strategy's schedule are caught") {
  for (const Subject& subject : testing::plain_subjects()) expect_caught(subject, {});
}

TEST_CASE("mutants of schedules with options are caught") {
  // One of them misses more than 5 %: ZeRO-2 that reduces to each owner has a division beside every
  // reduction, and a division commutes with a sum.
  int first = 0;
  std::size_t missed = 0;
  std::size_t mistakes = 0;
  for (const Subject& subject : testing::other_subjects()) {
    const MutantCount count = expect_caught(subject, {1, 4, first++}, 0.10);
    missed += count.missed.size();
    mistakes += static_cast<std::size_t>(count.mistakes());
  }
  CHECK(static_cast<double>(missed) <= 0.05 * static_cast<double>(mistakes));
}

TEST_CASE("a wait that another wait makes superfluous is equivalent, one that orders is not") {
  const Schedule s = build_schedule(testing::training_step(testing::of(StrategyKind::ddp, {2, 1})));
  const testing::HappensBefore::Pairs order = testing::HappensBefore(s).ordered();
  const std::vector<Op>& ops = s.roles[0].steps[0].ops;
  int waits = 0;
  int needed = 0;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (ops[i].kind != OpKind::stream_wait) continue;
    ++waits;
    std::vector<OpIndex> rest;
    for (std::size_t k = 0; k < ops.size(); ++k) {
      if (k != i) rest.push_back(static_cast<OpIndex>(k));
    }
    const Schedule without = testing::reordered(s, rest);
    if (testing::HappensBefore(without).ordered() != order) ++needed;
  }
  // Before each all-reduce and after it: all are needed.
  CHECK(waits > 4);
  CHECK(needed == waits);
}

}  // namespace
}  // namespace stepcast
