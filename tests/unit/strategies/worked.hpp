#pragma once
// Helpers of the worked examples: run a schedule in both engines and look an op's span up by name.

#include <doctest/doctest.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "sim/engines/engine.hpp"
#include "sim/schedule/problems.hpp"
#include "sim/strategies/strategy.hpp"

namespace stepcast::testing {

inline std::vector<std::unique_ptr<Engine>> both_engines() {
  std::vector<std::unique_ptr<Engine>> engines;
  engines.push_back(make_formula_engine());
  engines.push_back(make_fluid_engine());
  return engines;
}

// What is wrong with a schedule, one sentence a line; "" is sound.
inline std::string faults(const Schedule& schedule) {
  std::string text;
  for (const std::string& sentence : problems(schedule)) text += sentence + "\n";
  return text;
}

// The index of the StepProgram of this name.
inline int program_named(const Schedule& schedule, const char* name) {
  const std::vector<StepProgram>& steps = schedule.roles[0].steps;
  for (std::size_t p = 0; p < steps.size(); ++p) {
    if (steps[p].name == Name(name)) return static_cast<int>(p);
  }
  FAIL("no program of this name: " << name);
  return -1;
}

// The ops of a role's StepProgram, the steady one unless said otherwise.
inline const std::vector<Op>& ops_of(const Schedule& schedule, const char* program = "steady",
                                     std::size_t role = 0) {
  return schedule.roles[role].steps[static_cast<std::size_t>(program_named(schedule, program))].ops;
}

inline int count_of(const std::vector<Op>& ops, const char* verb) {
  int count = 0;
  for (const Op& op : ops) count += op.verb == Name(verb);
  return count;
}

// Bytes of the collectives of one verb, in order.
inline std::vector<Bytes> bytes_of_each(const std::vector<Op>& ops, const char* verb) {
  std::vector<Bytes> bytes;
  for (const Op& op : ops) {
    if (op.kind == OpKind::collective && op.verb == Name(verb)) bytes.push_back(bytes_of(op));
  }
  return bytes;
}

// Spans of the first role's first executed step by op name.
class Events {
 public:
  // Runs one StepProgram alone, the last (steady) one unless said otherwise.
  Events(Engine& engine, const Schedule& schedule, const std::function<Seconds(const Op&)>& cost,
         int program = -1) {
    const std::vector<StepProgram>& steps = schedule.roles[0].steps;
    if (program < 0) program = static_cast<int>(steps.size()) - 1;
    const CostTable costs = costs_by(schedule, cost);
    RunOptions options;
    options.programs = {program};
    timeline_ = engine.run(schedule, costs, options);
    const std::vector<std::string> names =
        op_names(schedule, steps[static_cast<std::size_t>(program)]);
    for (const Span& span : timeline_.spans) {
      if (span.step == 0 && span.role == 0) spans_[names[static_cast<std::size_t>(span.op)]] = span;
    }
  }

  void check(const std::string& name, Seconds start, Seconds end) const {
    INFO(timeline_.engine << ": " << name);
    const auto found = spans_.find(name);
    REQUIRE(found != spans_.end());
    CHECK(found->second.start == doctest::Approx(start).epsilon(1e-6));
    CHECK(found->second.end == doctest::Approx(end).epsilon(1e-6));
  }
  Seconds end() const { return timeline_.steps.at(0).end; }
  const Timeline& timeline() const { return timeline_; }

 private:
  Timeline timeline_;
  std::map<std::string, Span> spans_;
};

}  // namespace stepcast::testing
