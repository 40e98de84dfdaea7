#pragma once
// What a question of plan() may ask, and the search that it means. Internal to sim/plan.
//
// Checked before anything is searched, and each refusal names the flag or the key: numbers out of
// range, keys that a plan chooses itself, a batch that no cluster can begin or that is more than
// all training. Tested by tests/unit/plan/plan_test.cpp.

#include <string>
#include <vector>

#include "base/error.hpp"
#include "sim/plan/plan.hpp"

namespace stepcast {

InputError at_flag(const char* flag, const std::string& message);

// Numbers, ranges and keys. Throws InputError, as do all below.
void check_question(const PlanQuestion& question);

std::vector<std::string> machines_of(const PlanQuestion& question);
Space space_of(const PlanQuestion& question, const Plan& plan);

// What is wrong with the scenario wherever it runs is said once, as simulate would say it.
void check_scenario(const Space& space, const std::vector<std::string>& machines);
// A batch that not even the smallest cluster can begin is the batch's fault, not the machines'; so
// is one that is more than all training.
void check_global_batch(const Plan& plan, const Space& space);

}  // namespace stepcast
