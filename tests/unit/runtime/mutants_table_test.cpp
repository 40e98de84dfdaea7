// Not in the suite: all mutants of all schedules of mutants.hpp, each op swapped with the next
// three of either kind. Prints the table of docs/runtime.md.
//
//   build/dev/bin/test_runtime --no-skip -tc="the table of mutants"

#include <cstdio>

#include "tests/unit/runtime/mutants.hpp"

namespace stepcast {
namespace {

TEST_CASE("the table of mutants" * doctest::skip()) {
  std::vector<testing::Subject> subjects = testing::plain_subjects();
  for (testing::Subject& subject : testing::other_subjects()) subjects.push_back(subject);
  std::printf(
      "| schedule | mutants | equivalent | problems() | plan | hang | poison | numbers | missed |\n"
      "|---|---|---|---|---|---|---|---|---|\n");
  std::vector<std::string> missed;
  testing::MutantCount sum;
  for (const testing::Subject& subject : subjects) {
    testing::MutantCount count = testing::count_mutants(subject.c, {.partners = 3});
    std::printf("| %s | %d | %d | %d | %d | %d | %d | %d | %zu |\n", subject.name.c_str(),
                count.all, count.equivalent, count.caught["problems"], count.caught["plan"],
                count.caught["hang"], count.caught["poison"], count.caught["numbers"],
                count.missed.size());
    std::fflush(stdout);
    sum.all += count.all;
    sum.equivalent += count.equivalent;
    for (const std::string& what : count.missed) missed.push_back(subject.name + ": " + what);
    CHECK(count.missed_share() <= 0.10);
  }
  std::printf("\n%d mutants, %d equivalent, %zu missed: %.1f %% of the mistakes are caught\n\n",
              sum.all, sum.equivalent, missed.size(),
              100 * (1 - static_cast<double>(missed.size()) / sum.mistakes()));
  CHECK(static_cast<double>(missed.size()) <= 0.05 * sum.mistakes());
  for (const std::string& what : missed) std::printf("%s\n", what.c_str());
}

}  // namespace
}  // namespace stepcast
