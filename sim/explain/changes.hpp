#pragma once
// What could be done differently, each change tried by a forecast of its own.
//
// Changes are of what a user of this scenario can set: another strategy, when gradients are
// reduced, bucket sizes, prefetching, checkpointing, the micro-batch. Which are worth trying
// follows from the scenario, not from a guess at what is wrong. Of those that fit, the one with the
// highest throughput is the best; a change of the global batch or of the arithmetic (a compressed
// gradient) is told apart, since it may change what the training learns. So is a
// strategy whose usual precision reduces gradients in fewer bits (DeepSpeed's bf16 against fp32).
//
// Cost: a forecast a change, 10 to 25 of them. Tested by tests/unit/explain/explain_test.cpp.

#include <string>
#include <vector>

#include "sim/forecast/scenario.hpp"
#include "sim/report/report.hpp"

namespace stepcast {

struct Change {
  std::string words;  // "strategy ddp"
  std::string flags;  // "--strategy ddp": what to add to the command
  Scenario scenario;
  bool changes_batch = false;       // other samples a step
  bool changes_arithmetic = false;  // gradients reduced in fewer bits
  // After it was tried:
  bool refused = false;  // the scenario is none then: left out
  bool fits = false;
  Seconds step = 0;
  double gain = 0;  // of samples a second: after / before - 1
};

// Not tried yet.
std::vector<Change> changes_of(const Scenario& scenario, const Report& now);

// Fills in what a forecast says; refused ones are dropped, the fastest that fits comes first.
std::vector<Change> tried(std::vector<Change> changes, const Report& now);

// The fastest that fits and leaves batch and arithmetic alone, where it gains at least `least`;
// nullptr: none.
const Change* best_of(const std::vector<Change>& tried, double least = 0.005);

}  // namespace stepcast
