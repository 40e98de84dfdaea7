#pragma once
// Errors with the place where the scenario says their key.
//
// A strategy, or a cluster, refuses a key by its name alone ("gpus: 17 do not fit on 2 nodes ..."):
// it does not know where it was said. The scenario does, so what is built from one runs within
//
//   placed(scenario, [&] { return make_cluster(machine, options); })
//
// and the message becomes "job.yaml:3: gpus: 17 do not fit ...". An error that has its place keeps
// it. Tested by tests/unit/forecast/placed_test.cpp.

#include "base/error.hpp"
#include "sim/forecast/scenario.hpp"

namespace stepcast {

InputError at_its_place(const Scenario& scenario, const InputError& error);

template <typename Work>
decltype(auto) placed(const Scenario& scenario, Work&& work) {
  try {
    return work();
  } catch (const InputError& error) {
    throw at_its_place(scenario, error);
  }
}

}  // namespace stepcast
