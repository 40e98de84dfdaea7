// What counts as worse than recorded.

#include "validate/published/record.hpp"

#include <doctest/doctest.h>

using namespace stepcast;

namespace {

Ledger ledger_with(const Figures& figures) {
  Ledger ledger;
  SourceResult& result = ledger.sources.emplace_back();
  result.source.name = "made";
  result.figures = figures;
  return ledger;
}

}  // namespace

TEST_CASE("an error may grow by its tolerance, a count may not fall, a figure may not go") {
  const std::string recorded =
      "tolerance = 0.5\n[made]\n\"step.check.median\" = 3.0\n\"step.check.rows\" = 44\n"
      "\"decisions.right\" = 90.0\n";
  const Figures same = {
      {"step.check.median", 3.0}, {"step.check.rows", 44}, {"decisions.right", 90}};
  const auto worse = [&](const std::string& figure, double value) {
    Figures now = same;
    now[figure] = value;
    return worse_than_recorded(ledger_with(now), recorded, "r").size();
  };
  CHECK(worse_than_recorded(ledger_with(same), recorded, "r").empty());
  CHECK(worse("step.check.median", 3.4) == 0);
  CHECK(worse("step.check.median", 3.6) == 1);
  CHECK(worse("step.check.median", 1.0) == 0);
  CHECK(worse("step.check.rows", 43) == 1);
  CHECK(worse("decisions.right", 89.4) == 1);
  CHECK(worse("decisions.right", 99) == 0);
  CHECK(worse("new.figure", 99) == 0);
  Figures gone = same;
  gone.erase("decisions.right");
  CHECK(worse_than_recorded(ledger_with(gone), recorded, "r").size() == 1);
}

TEST_CASE("what was recorded is not worse than itself") {
  const Ledger ledger = ledger_with({{"step.check.median", 3.0}, {"no_network.check.median", 4}});
  const std::string record = to_record(ledger);
  CHECK(record.find("no_network") == std::string::npos);
  CHECK(worse_than_recorded(ledger, record, "r").empty());
}
