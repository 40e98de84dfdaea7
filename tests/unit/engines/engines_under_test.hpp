#pragma once
// Runs the same check on both engines, and finds spans by the names of their ops.

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "sim/engines/engine.hpp"

namespace stepcast::testing {

// check(engine) once with the formula and once with the fluid engine.
template <typename Check>
void in_both_engines(Check&& check) {
  for (const auto& engine : {make_formula_engine(), make_fluid_engine()}) {
    const std::string name = engine->name();
    CAPTURE(name);
    check(*engine);
  }
}

// The span of an op by its name within the step ("backward.all_gather.u2"); fails the test when
// there is none.
inline Span span(const Schedule& schedule, const Timeline& timeline, const std::string& op,
                 int role = 0, int step = 0) {
  const auto program =
      static_cast<std::size_t>(timeline.steps[static_cast<std::size_t>(step)].program_index);
  const auto names =
      op_names(schedule, schedule.roles[static_cast<std::size_t>(role)].steps[program]);
  for (const Span& each : timeline.spans) {
    if (each.role == role && each.step == step && names[static_cast<std::size_t>(each.op)] == op) {
      return each;
    }
  }
  FAIL("no span of " << op);
  return {};
}

inline bool near(Seconds a, Seconds b) {
  return std::abs(a - b) <= 1e-9 * std::max(1.0, std::abs(b));
}

// "START-END" with the seconds as short as they go: what the worked examples are written in.
inline std::string when(const Span& span) {
  const auto text = [](Seconds seconds) {
    std::string digits = std::to_string(seconds);
    while (digits.back() == '0') digits.pop_back();
    if (digits.back() == '.') digits.pop_back();
    return digits;
  };
  return text(span.start) + "-" + text(span.end);
}

}  // namespace stepcast::testing
