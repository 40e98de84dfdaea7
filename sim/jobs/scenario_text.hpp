#pragma once
// A combined job as a scenario file, with a comment on every value: which key of which file, which
// framework's default, or how it was worked out; and, commented out, what the user must say.
//
//   # a DeepSpeed configuration: ds.json
//   strategy = "zero3"                  # ds.json:8: zero_optimization.stage = 3
//   # micro_batch =                     # asked: "auto" is the Trainer's ...
//
// What it prints reads back as the same scenario. Tested by tests/unit/jobs/combine_test.cpp.

#include <string>

#include "sim/jobs/combine.hpp"

namespace stepcast::jobs {

std::string scenario_text(const Combined& combined);

}  // namespace stepcast::jobs
