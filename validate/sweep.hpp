#pragma once
// A scenario with one key varied: forecast and measured for each value, and whether the forecast
// puts them in the right order. Tested by tests/unit/validate/sweep_test.cpp.
//
//   bucket_cap_mb=1,5,25,100
//   strategy=ddp,fsdp1:SHARD_GRAD_OP,fsdp1:FULL_SHARD,fsdp2,hsdp:2
//
// After fsdp1 a colon gives its sharding_strategy, after hsdp its shard_group. Other strategies do
// not take the base scenario's strategy options: those are left out.

#include <string>
#include <vector>

#include "sim/forecast/scenario.hpp"
#include "validate/compare.hpp"

namespace stepcast {

struct SweepPoint {
  std::string value;  // as written
  Scenario scenario;
};
// Throws InputError that names `where`: an unknown key, a value it does not take, none at all.
std::vector<SweepPoint> sweep_points(const Scenario& base, const std::string& sweep,
                                     const Where& where);

struct Sweep {
  std::string key;
  std::vector<std::string> values;
  std::vector<Comparison> points;  // one each

  double median_error() const;  // of the step times, without sign
  // Pairs of values whose measured steps differ by more than both spreads, and of those the pairs
  // that the forecast puts in the same order.
  int told_apart() const;
  int in_order() const;
};

std::string to_text(const Sweep& sweep);
std::string to_json(const Sweep& sweep);  // schema stepcast.validation-sweep/1

}  // namespace stepcast
