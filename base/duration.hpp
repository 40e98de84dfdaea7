#pragma once
// A length of time as people type it, always with its unit.
//
//   read_duration("120ms")->seconds()     0.12; so is 0.12s; milliseconds() are 120 of both
//   read_duration("120")                  none: milliseconds or seconds, nobody knows
//
// Tested by tests/unit/base/duration_test.cpp.

#include <optional>
#include <string_view>

#include "base/units.hpp"

namespace stepcast {

struct Duration {
  double value = 0;
  Seconds unit = 1;

  Seconds seconds() const { return value * unit; }
  // By way of the unit: 0.3ms are 0.3, which 1000 x 0.0003 need not be.
  double milliseconds() const { return value * (unit * 1e3); }
};

// us, ms, s, min. None for another unit and for what begins with no number; ranges, and that nan is
// none, are the caller's.
std::optional<Duration> read_duration(std::string_view text);

}  // namespace stepcast
