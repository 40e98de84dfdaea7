#pragma once
// What every DDP schedule must be, whatever its options: free of problems, the same in both engines
// where nothing contends, and with nothing left allocated.

#include <string>

#include "sim/memory/ledger.hpp"
#include "tests/unit/strategies/worked.hpp"

namespace stepcast::testing {

inline void check_sound(const Schedule& schedule) {
  CHECK(faults(schedule) == "");
  for (const RoleLedger& ledger : memory_ledger(schedule)) CHECK(ledger.growth == 0);
  const auto cost = [](const Op& op) {
    if (op.kind == OpKind::collective) return 1e-5 + static_cast<double>(bytes_of(op)) / 1e10;
    if (op.kind == OpKind::compute) return 1e-4;
    return op.kind == OpKind::copy ? 1e-5 : 0.0;
  };
  const CostTable costs = costs_by(schedule, cost);
  std::vector<Seconds> periods;
  for (auto& engine : both_engines()) {
    periods.push_back(engine->run(schedule, costs).period());
  }
  CHECK(periods[0] > 0);
  CHECK(periods[1] == doctest::Approx(periods[0]).epsilon(1e-6));
}

}  // namespace stepcast::testing
